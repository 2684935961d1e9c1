"""A neighbour that comes and goes: processes that compute for a while, and then rest.

    python benchmarks/neighbour.py --seed 1        # until Ctrl-C, or the end of the process that started it

Times are drawn from exponential distributions with these means, and each spell has one to `--processes` processes.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time

SPIN = "import sys, time; end = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"


def spell(processes: int, seconds: float) -> None:
    """So many processes compute for so long; each ends by itself, also where nobody waits for it."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN, str(seconds)]) for _ in range(processes)]
    for one in spinning:
        one.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--busy", type=float, default=8.0, metavar="SECONDS", help="mean length of a spell")
    parser.add_argument("--quiet", type=float, default=8.0, metavar="SECONDS", help="mean time between two spells")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="the most of one spell")
    given = parser.parse_args()
    draw, started_by = random.Random(given.seed), os.getppid()
    while os.getppid() == started_by:
        time.sleep(draw.expovariate(1 / given.quiet))
        spell(draw.randint(1, given.processes), draw.expovariate(1 / given.busy))


if __name__ == "__main__":
    main()
