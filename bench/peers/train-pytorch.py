"""One rank of PyTorch DistributedDataParallel over gloo, beside `verbena bench train`.

python3 train-pytorch.py speed MODEL BATCH STEPS CHUNK    rank 0 prints samples/s of all ranks, one line for each chunk of steps
python3 train-pytorch.py sync BYTES BUCKETS REPEATS       rank 0 prints milliseconds of one synchronisation, one line each

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from the environment. One thread a rank, as the other side has.
"""
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)


def network(name):
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(16, 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )


def speed(name, batch, steps, chunk):
    ranks = dist.get_world_size()
    model = network(name)
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    lost = nn.CrossEntropyLoss()
    images = torch.randn(60000, 1, 28, 28)
    labels = torch.randint(0, 10, (60000,))
    order = torch.randperm(60000)
    rates = []
    at = 0
    for _ in range(steps // chunk):
        began = time.perf_counter()
        for _ in range(chunk):
            index = order[at : at + batch]
            at = (at + batch) % (60000 - batch)
            optimizer.zero_grad(set_to_none=True)
            loss = lost(model(images[index]), labels[index])
            loss.backward()
            optimizer.step()
        rates.append(ranks * batch * chunk / (time.perf_counter() - began))
    return rates


def sync(size, buckets, repeats):
    parts = [torch.ones(size // 4 // buckets) for _ in range(buckets)]
    times = []
    for _ in range(repeats):
        dist.barrier()
        began = time.perf_counter()
        for handle in [dist.all_reduce(part, async_op=True) for part in parts]:
            handle.wait()
        times.append(1e3 * (time.perf_counter() - began))
    return times


dist.init_process_group("gloo")
if sys.argv[1] == "speed":
    values = speed(sys.argv[2], *map(int, sys.argv[3:6]))
else:
    values = sync(*map(int, sys.argv[2:5]))
if dist.get_rank() == 0:
    print(torch.__version__)
    print("\n".join(str(value) for value in values))
dist.barrier()
dist.destroy_process_group()
