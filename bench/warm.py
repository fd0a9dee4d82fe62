#!/usr/bin/env python3
"""Touch memory and give it back, for whoever runs next; says how many ns a byte that took.

Usage: warm.py BYTES
A program of its own: the most memory that a process ever had is told of those that it starts, too (vfork).
In huge pages, which serve programs that want such and those that want small ones.
"""
import mmap
import sys
import time

size = int(sys.argv[1])
began = time.monotonic()
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_HUGEPAGE)
for at in range(0, size, 4096):
    memory[at] = 1
print((time.monotonic() - began) * 1e9 / size)
