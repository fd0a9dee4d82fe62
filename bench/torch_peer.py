"""The PyTorch side of the training-step benchmark: one model, one batch size, one thread.

Usage: torch_peer.py mlp|lenet BATCH [compile] [nodropout]. Reads a number of steps per line from standard
input, runs them, answers "CPU_SECONDS LOSS". Data and first weights follow formulas that the other side
uses as well, so that losses can be compared.
"""
import sys
import time

import numpy
import torch

MODEL, BATCH, FLAGS = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
torch.set_num_threads(1)
torch.manual_seed(1)


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


def main():
    # The faster of the two memory formats is the peer.
    layout = False
    if MODEL == "lenet":
        trials = {}
        for last in (False, True):
            trial = build(last)
            seconds_of(trial, 2)
            trials[last] = seconds_of(trial, 4)[0]
        layout = trials[True] < trials[False]
    step = build(layout)
    print("ready", torch.__version__, "channels_last" if layout else "contiguous", flush=True)
    for line in sys.stdin:
        print(*seconds_of(step, int(line)), flush=True)


main()
