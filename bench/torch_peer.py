"""The PyTorch side of the training-step benchmark: one model, one batch size, one thread.

Usage: torch_peer.py mlp|lenet|gpt BATCH [compile] [nodropout]. Reads a number of steps per line from standard
input, runs them, answers "CPU_SECONDS LOSS". Data and first weights follow formulas that the other side
uses as well, so that losses can be compared. A GPT runs as it is written or compiled,
whichever is faster here.
"""
import sys
import time

import numpy
import torch

MODEL, BATCH, FLAGS = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
torch.set_num_threads(1)
torch.manual_seed(1)
LENGTH, VOCABULARY = 128, 1024


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
    def __init__(self, layers=4, width=256, heads=4):
        super().__init__()
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


def build_gpt(compiled):
    model = Gpt()
    set_matrices(model)
    tokens = torch.arange(BATCH * LENGTH + 1) * 7919 % VOCABULARY
    x, labels = tokens[:-1].view(BATCH, LENGTH), tokens[1:]
    optimizer = adam(list(model.parameters()))
    model.train()

    def forward():
        return torch.nn.functional.cross_entropy(model(x).view(-1, VOCABULARY), labels)

    loss_of = torch.compile(forward) if compiled else forward

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
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
        loss = loss_of(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    if "compile" in FLAGS:
        step = torch.compile(step)
    return step


def seconds_of(step, count):
    begun = time.process_time()
    for _ in range(count):
        loss = step()
    return time.process_time() - begun, float(loss.detach())


def fastest(makers):
    """Of several ways to write the same step the name and a new one of the fastest."""
    trials = {}
    for name, maker in makers.items():
        try:
            trial = maker()
            seconds_of(trial, 2)
            trials[name] = min(seconds_of(trial, 2)[0] for _ in range(4))
        except Exception as failure:  # a compiler that is not there
            print(f"{name}: {failure}", file=sys.stderr)
    best = min(trials, key=trials.get)
    return best, makers[best]()


def main():
    if MODEL == "gpt":
        way, step = fastest({"plain": lambda: build_gpt(False), "compiled": lambda: build_gpt(True)})
    elif MODEL == "lenet":
        way, step = fastest({"contiguous": lambda: build(False), "channels_last": lambda: build(True)})
    else:
        way, step = "contiguous", build(False)
    print("ready", torch.__version__, way, flush=True)
    for line in sys.stdin:
        print(*seconds_of(step, int(line)), flush=True)


main()
