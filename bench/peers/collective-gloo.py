"""gloo's collectives, through PyTorch, beside Verbena's: one rank.

  collective-gloo.py RANK RANKS STORE_FILE allreduce|allgather|broadcast|alltoall BYTES DURATION_MS

BYTES as nccl-tests counts them: of the whole vector. The first call is checked; rank 0 prints how many elements were wrong, then the microseconds of one
call, a line for each batch.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

rank, ranks, store, which = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
count, duration = int(sys.argv[5]) // 4, float(sys.argv[6]) / 1e3
cpus = sorted(os.sched_getaffinity(0))
if len(cpus) >= ranks:
    os.sched_setaffinity(0, {cpus[rank]})
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)

part = count // ranks
index = torch.arange(count)


def given(source):
    return ((source + 1) * (1 + index % 7)).to(torch.float32)


data, other = torch.full((count,), -1.0), torch.full((count,), -1.0)
parts = list(data.split(part)) if which == "allgather" else []
if which == "allgather":
    parts[rank].copy_(given(rank)[rank * part : (rank + 1) * part])
elif which != "broadcast" or rank == 0:
    data.copy_(given(rank))


def call():
    if which == "allreduce":
        dist.all_reduce(data)
    elif which == "allgather":
        dist.all_gather(parts, parts[rank])
    elif which == "broadcast":
        dist.broadcast(data, 0)
    else:
        dist.all_to_all_single(other, data)


def batch(calls):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


call()
if which == "allreduce":
    wanted = given(0) * (ranks * (ranks + 1) // 2)
elif which == "allgather":
    wanted = torch.cat([given(r)[r * part : (r + 1) * part] for r in range(ranks)])
elif which == "broadcast":
    wanted = given(0)
else:
    wanted = torch.cat([given(r)[rank * part : (rank + 1) * part] for r in range(ranks)])
wrong = torch.tensor([int((wanted != (other if which == "alltoall" else data)).sum())])
dist.all_reduce(wrong)
if rank == 0:
    print(int(wrong), flush=True)
data.zero_()
other.zero_()
batch(2)
plan = torch.tensor([batch(4)], dtype=torch.float64)
dist.broadcast(plan, 0)
calls = max(1, int(duration / 20 / float(plan)))
for _ in range(max(3, int(duration / (float(plan) * calls)))):
    us = batch(calls) * 1e6
    if rank == 0:
        print(f"{us:.4f}", flush=True)
dist.barrier()
dist.destroy_process_group()
