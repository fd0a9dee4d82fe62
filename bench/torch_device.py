"""PyTorch's side of bench_device: products, and copies to, from and inside the first device.

Prints lines NAME VALUE UNIT -, separated by tabs, as bench_device does; medians of nine.
"""
import statistics
import time

import torch

SIDE, BYTES, ROUNDS = 8192, 256 << 20, 9


def seconds_of(work):
    for _ in range(3):
        work()
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begun = time.monotonic()
        work()
        torch.cuda.synchronize()
        times.append(time.monotonic() - begun)
    return statistics.median(times)


def tell(name, value, unit):
    print(f"{name}\t{value:.6g}\t{unit}\t-", flush=True)


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
        a, b = (torch.rand(SIDE, SIDE, device="cuda").sub_(0.5).to(dtype) for _ in range(2))
        out = torch.empty(SIDE, SIDE, device="cuda", dtype=dtype)
        tell(f"product_{name}_{SIDE}", 1e3 * seconds_of(lambda: torch.mm(a, b, out=out)), "ms")
    for classes in (50304, 50257):
        a, b = (torch.full((lines, 768), 0.0115, device="cuda", dtype=torch.bfloat16) for lines in (SIDE, classes))
        out = torch.empty(SIDE, classes, device="cuda", dtype=torch.bfloat16)
        tell(f"logits_bf16_{classes}", 1e3 * seconds_of(lambda: torch.mm(a, b.t(), out=out)), "ms")
    pinned = torch.ones(BYTES, dtype=torch.uint8).pin_memory()
    one, other = (torch.zeros(BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    for name, work, times in (("to_device_pinned", lambda: one.copy_(pinned, non_blocking=True), 1),
                              ("from_device_pinned", lambda: pinned.copy_(one, non_blocking=True), 1),
                              ("inside", lambda: other.copy_(one), 2)):
        tell(f"copy_{name}", 1e-9 * times * BYTES / seconds_of(work), "GB/s")


main()
