# The workloads of `verbena bench sort | groupby | join | wordcount` on Spark, local mode. Does a round for each line of input and answers with a line of JSON. Everything runs inside the
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


def sort(sources):
    out = job["output"]
    shutil.rmtree(out, ignore_errors=True)
    rows = spark.read.option("lineSep", "\n").text(sources["records"])
    rows.orderBy(F.substring("value", 1, 10)).write.text(out)
    return 0


def groupby(sources):
    rows = spark.read.parquet(sources["rows"])
    rows.groupBy("key").agg(F.sum("value")).write.format("noop").mode("overwrite").save()
    return 0


def join(sources):
    rows, small = spark.read.parquet(sources["rows"]), spark.read.parquet(sources["small"])
    rows.join(small, "key").write.format("noop").mode("overwrite").save()
    return 0


def wordcount(sources):
    lines = spark.read.text(sources["text"])
    words = lines.select(F.explode(F.split("value", " ")).alias("word"))
    words.groupBy("word").count().write.format("noop").mode("overwrite").save()
    return 0


work = {"sort": sort, "groupby": groupby, "join": join, "wordcount": wordcount}[job["workload"]]
work(job["warm"])
print(json.dumps({"ready": True}), flush=True)
for _ in sys.stdin:  # a line is a round
    started = time.monotonic()
    work(inputs)
    print(json.dumps({"ms": (time.monotonic() - started) * 1000}), flush=True)
spark.stop()
