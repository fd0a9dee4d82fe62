"""The PyTorch side of the training-step benchmarks: one model, one batch size, one thread a process.

Usage: torch_peer.py mlp|lenet|gpt BATCH [compile] [nodropout] [bf16] [ddp] [cuda] [layers=N] [width=N] [heads=N]
[context=N]. With bf16 losses are computed under torch.autocast. With cuda (gpt alone) it runs on the first device, and
answers seconds of a clock. Reads a number of steps per line from standard
input, runs them, answers "CPU_SECONDS LOSS". With ddp (gpt alone) it starts a second process, and both train by
DistributedDataParallel over gloo, each on a core, half of the batch each; the first answers "WALL_SECONDS LOSS". Data and first weights follow formulas that the other side
uses as well, so that losses can be compared. A GPT runs as it is written or compiled,
whichever is faster here.
"""
import os
import subprocess
import sys
import tempfile
import time

import numpy
import torch

MODEL, BATCH, FLAGS = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
torch.set_num_threads(1)
torch.manual_seed(1)
SIZES = dict(flag.split("=") for flag in FLAGS if "=" in flag)
LENGTH, VOCABULARY = int(SIZES.get("context", 128)), 1024
DEVICE = "cuda" if "cuda" in FLAGS else "cpu"
RANK, RANKS = int(os.environ.get("PEER_RANK", "0")), 2 if "ddp" in FLAGS else 1


def mlp():
    return torch.nn.Sequential(
        torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
        torch.nn.Linear(512, 10))


def lenet():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(3136, 512), torch.nn.ReLU(),
        torch.nn.Dropout(0.0 if "nodropout" in FLAGS else 0.5), torch.nn.Linear(512, 10))


def set_weights(model):
    """Weights (inputs first for dense layers): sin(0.7 i + 1) / sqrt(fan in); biases 0."""
    for layer in model:
        if not hasattr(layer, "weight"):
            continue
        weight = layer.weight
        count = weight.numel()
        fan_in = count // weight.shape[0]
        values = numpy.sin(0.7 * numpy.arange(count) + 1) / numpy.sqrt(fan_in)
        with torch.no_grad():
            if weight.dim() == 2:
                weight.copy_(torch.from_numpy(values.reshape(fan_in, -1).T.astype(numpy.float32)))
            else:
                weight.copy_(torch.from_numpy(values.reshape(weight.shape).astype(numpy.float32)))
            layer.bias.zero_()


def attend(q, k, v):
    """Causal attention: one kernel, or by products before PyTorch 2."""
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    unseen = torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), diagonal=1)
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + unseen, -1) @ v


def narrow():
    """The precision that losses are computed in."""
    return torch.autocast(DEVICE, torch.bfloat16, enabled="bf16" in FLAGS)


def adam(parameters):
    try:
        return torch.optim.Adam(parameters, lr=1e-3, fused=True)
    except (TypeError, RuntimeError):  # before PyTorch 2.4 on a processor
        return torch.optim.Adam(parameters, lr=1e-3)


class Block(torch.nn.Module):
    """One layer of GPT-2 whose columns of query, key and value stand head by head."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.projection = torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, h):
        batch, length, width = h.shape
        parts = self.qkv(self.norm1(h)).view(batch, length, self.heads, 3, width // self.heads)
        q, k, v = (part.transpose(1, 2) for part in parts.unbind(3))
        mixed = attend(q, k, v)
        h = h + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return h + self.down(torch.nn.functional.gelu(self.up(self.norm2(h))))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers, width, heads = (int(SIZES.get(name, size)) for name, size in
                                (("layers", 4), ("width", 256), ("heads", 4)))
        self.embedding = torch.nn.Parameter(torch.empty(VOCABULARY, width))
        self.positions = torch.nn.Parameter(torch.empty(LENGTH, width))
        self.blocks = torch.nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        h = torch.nn.functional.embedding(x, self.embedding) + self.positions
        return torch.nn.functional.linear(self.norm(self.blocks(h)), self.embedding)


def set_matrices(model):
    """Matrices (inputs first): 0.04 (frac(j 2654435761 / 2^32) - 1/2); biases 0, gains 1."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() == 2:
                turns = numpy.arange(value.numel(), dtype=numpy.uint64) * 2654435761 % 2**32 / 2.0**32
                values = (0.04 * (turns - 0.5)).astype(numpy.float32)
                linear = "." in name
                shape = value.shape[::-1] if linear else value.shape
                matrix = torch.from_numpy(values.reshape(tuple(shape)))
                value.copy_(matrix.T if linear else matrix)
            else:
                value.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(self.model(x).view(-1, VOCABULARY), labels)


def build_gpt(compiled, bucket_mb=25):
    model = Gpt()
    set_matrices(model)
    model.to(DEVICE)
    tokens = torch.arange(BATCH * LENGTH + 1, device=DEVICE) * 7919 % VOCABULARY
    begin, end = BATCH * RANK // RANKS * LENGTH, BATCH * (RANK + 1) // RANKS * LENGTH
    x, labels = tokens[begin:end].view(-1, LENGTH), tokens[begin + 1:end + 1]
    optimizer = adam(list(model.parameters()))
    model.train()
    loss_of = Loss(model)
    if RANKS > 1:
        loss_of = torch.nn.parallel.DistributedDataParallel(
            loss_of, broadcast_buffers=False, gradient_as_bucket_view=True, bucket_cap_mb=bucket_mb)
    loss_of = torch.compile(loss_of) if compiled else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        with narrow():
            loss = loss_of(x, labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def build(channels_last):
    model = mlp() if MODEL == "mlp" else lenet()
    set_weights(model)
    shape = (BATCH, 784) if MODEL == "mlp" else (BATCH, 1, 28, 28)
    values = numpy.sin(0.01 * numpy.arange(BATCH * 784)) * 0.5 + 0.5
    x = torch.from_numpy(values.reshape(shape).astype(numpy.float32))
    labels = torch.from_numpy((numpy.arange(BATCH) % 10).astype(numpy.int64))
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = torch.nn.CrossEntropyLoss()
    model.train()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with narrow():
            loss = loss_of(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    if "compile" in FLAGS:
        step = torch.compile(step)
    return step


def agreed(value):
    """A number of the first process, everywhere."""
    if RANKS == 1:
        return value
    told = torch.tensor([value], dtype=torch.float64)
    torch.distributed.broadcast(told, 0)
    return float(told[0])


def seconds_of(step, count):
    clock = time.process_time if RANKS == 1 and DEVICE == "cpu" else time.monotonic
    wait = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None
    wait()
    begun = clock()
    for _ in range(count):
        loss = step()
    wait()
    seconds, loss = clock() - begun, loss.detach().double()
    if RANKS > 1:
        torch.distributed.all_reduce(loss)
    return seconds, float(loss) / RANKS


def fastest(makers):
    """Of several ways to write the same step the name and a new one of the fastest."""
    trials = {}
    for name, maker in makers.items():
        try:
            trial = maker()
            seconds_of(trial, 2)
            trials[name] = agreed(min(seconds_of(trial, 2)[0] for _ in range(4)))
        except Exception as failure:  # a compiler that is not there
            print(f"{name}: {failure}", file=sys.stderr)
    best = min(trials, key=trials.get)
    return best, makers[best]()


def join():
    """Start the second process, and make a group with it."""
    if RANK == 0:
        os.environ["PEER_FILE"] = os.path.join(tempfile.mkdtemp(), "group")
        subprocess.Popen([sys.executable] + sys.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         env={**os.environ, "PEER_RANK": "1"})
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[RANK % len(cores)]})
    torch.distributed.init_process_group("gloo", init_method="file://" + os.environ["PEER_FILE"], rank=RANK,
                                         world_size=RANKS)


def gpt_ways():
    ways = {"plain": lambda: build_gpt(False), "compiled": lambda: build_gpt(True)}
    if RANKS > 1:
        ways.update({"plain, buckets of 4 MB": lambda: build_gpt(False, 4),
                     "compiled, buckets of 4 MB": lambda: build_gpt(True, 4)})
    return ways


def steps_asked():
    """A number a line; the others hear it from the first process, at last 0."""
    if RANK == 0:
        for line in sys.stdin:
            yield int(agreed(int(line)))
        agreed(0)
    else:
        while (steps := int(agreed(0))) > 0:
            yield steps


def main():
    if RANKS > 1:
        join()
    if MODEL == "gpt":
        way, step = fastest(gpt_ways())
    elif MODEL == "lenet":
        way, step = fastest({"contiguous": lambda: build(False), "channels_last": lambda: build(True)})
    else:
        way, step = "contiguous", build(False)
    print("ready", torch.__version__, way, flush=True)
    for steps in steps_asked():
        print(*seconds_of(step, steps), flush=True)


main()
