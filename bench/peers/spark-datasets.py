# The jobs of `verbena bench sort | groupby | join | wordcount | rows` on Spark, local mode. Does the job that a line of input names and answers with a line of JSON. Everything runs inside the
# JVM (DataFrames), which is Spark at its best; Python only says what to do.
import json
import shutil
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

job = json.loads(sys.argv[1])
spark = (
    SparkSession.builder.master(f"local[{job['threads']}]")
    .config("spark.driver.memory", job["memory"])
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", str(job["partitions"]))
    .config("spark.local.dir", job["scratch"])
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
inputs = job["input"]


def done(rows):
    rows.write.format("noop").mode("overwrite").save()


def numbers(count, *columns):
    return spark.range(0, count, 1, job["partitions"]).selectExpr(*columns)


def sort(sources):
    out = job["output"]
    shutil.rmtree(out, ignore_errors=True)
    rows = spark.read.option("lineSep", "\n").text(sources["records"])
    rows.orderBy(F.substring("value", 1, 10)).write.text(out)


def groupby(sources):
    rows = spark.read.parquet(sources["rows"])
    done(rows.groupBy("key").agg(F.sum("value")))


def join(sources):
    rows, small = spark.read.parquet(sources["rows"]), spark.read.parquet(sources["small"])
    done(rows.join(small, "key"))


def wordcount(sources):
    lines = spark.read.text(sources["text"])
    words = lines.select(F.explode(F.split("value", " ")).alias("word"))
    done(words.groupBy("word").count())


work = {
    "sort": sort,
    "groupby": groupby,
    "join": join,
    "wordcount": wordcount,
    "wordcount-js": wordcount,
    # verbena bench rows: see src/cli/commands/dataset/row-work.ts
    "numbers": lambda _: done(numbers(10_000_000, "3 * id AS x").where("x % 2 = 0").selectExpr("x + 1")),
    "few-keys": lambda _: done(numbers(5_000_000, "id % 1000 AS k", "id AS v").groupBy("k").sum("v")),
    "text-keys": lambda _: done(numbers(2_000_000, "concat('key-', id % 500000) AS k", "1 AS v").groupBy("k").sum("v")),
    "group-numbers": lambda _: done(numbers(1_000_000, "id % 100000 AS k", "id AS v").groupBy("k").agg(F.collect_list("v"))),
    "group-objects": lambda _: done(
        numbers(500_000, "concat('key-', id % 100000) AS k", "named_struct('id', id, 'name', concat('name-', id)) AS v")
        .groupBy("k")
        .agg(F.collect_list("v"))
    ),
    "join-rows": lambda _: done(numbers(1_000_000, "id % 100000 AS k", "id AS v").join(numbers(100_000, "id AS k", "2 * id AS w"), "k")),
    "sort-rows": lambda _: done(numbers(500_000, "(id * 2654435761) % 4294967296 AS x").orderBy("x")),
    "distinct": lambda _: done(numbers(1_000_000, "concat('word-', id % 50000) AS x").distinct()),
}
for name in job["works"]:
    work[name](job["warm"])
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    started = time.monotonic()
    work[line.strip()](inputs)
    print(json.dumps({"ms": (time.monotonic() - started) * 1000}), flush=True)
spark.stop()
