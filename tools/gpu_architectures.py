"""Which GPUs the pinned CUDA packages have code for: `python -m tools.gpu_architectures`.

It downloads the `nvidia-*-cu12` wheels that constraints.txt pins (3 GB, from pip's cache if they are there), scans the
libraries in them, and writes docs/data/gpu_architectures.json. `python -m tools.gpu_architectures FILE...` prints what
the given wheels and libraries have.

A library holds its code for GPUs in "fat binaries". A fat binary is a header and a row of entries, each for a compute
capability: PTX, which a driver compiles for later GPUs, or finished code (an ELF, also called SASS). NVIDIA does not
document the format; the offsets are those that `cuobjdump --list-elf` agrees with.
"""

from __future__ import annotations
