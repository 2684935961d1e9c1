"""A PyTorch program that keeps a GPU busy and prints its rate: `python tools/gpu_loop.py SECONDS`.

tools/gpu_lease.sh measures it as a user's program, and runs it beside others. It imports nothing of this package. Where
there is no PyTorch it sleeps instead, as the tests with the stand-in for NVML need it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

_SLEEP_SECONDS = 0.01


def steps() -> tuple[str, int, Callable[[], Any], Callable[[], Any]]:
    """The device, a step's images, a step, and what waits until the device is done."""
    try:
        import torch
    except ImportError:
        return "sleep", 1, lambda: time.sleep(_SLEEP_SECONDS), lambda: None
    device, images = ("cuda", 64) if torch.cuda.is_available() else ("cpu", 2)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    net = torch.nn.Sequential(*[torch.nn.Conv2d(64, 64, 3, padding=1) for _ in range(8)]).to(device)
    optimizer, batch = torch.optim.SGD(net.parameters(), lr=1e-3), torch.randn(images, 64, 56, 56, device=device)

    def step() -> None:
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()

    return device, images, step, torch.cuda.synchronize if device == "cuda" else lambda: None


def main(seconds: float) -> None:
    """Print the device, then the rate four times a second."""
    device, images, step, wait = steps()
    step()
    wait()
    print("busy", device, flush=True)
    end, lines = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        began, done = time.monotonic(), 0
        while time.monotonic() < began + 0.25:
            for _ in range(5):
                step()
            wait()
            done += 5 * images
        took = time.monotonic() - began
        if device == "sleep":  # it has no speed of its own, and must not be too slow for a busy machine's test
            lines += 1
            took = done * _SLEEP_SECONDS * (1 + lines % 2 / 1000)  # a rate that never changes is refused
        print(f"throughput: {done / took:.2f} images/s", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
