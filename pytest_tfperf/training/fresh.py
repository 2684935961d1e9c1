"""A fresh interpreter that becomes one worker; its job comes by standard input.

Run by a launcher as `pytest_tfperf.training.fresh`, with the driver's address in TFPERF_ADDRESS.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pytest_tfperf.training.process import become_worker, call_driver, die_with_parent, import_tensorflow
from pytest_tfperf.workers.wire import Address


def main() -> int:
    """Import TensorFlow, then work; returns the process's exit status."""
    die_with_parent(int(os.environ.pop("TFPERF_PARENT")))
    address = Address.parse(os.environ.pop("TFPERF_ADDRESS"))
    job = json.load(sys.stdin)
    become_worker(Path(job["log"]), job["environment"], job["import_paths"])
    channel = call_driver(address, job)
    found = import_tensorflow()
    channel.send(found)
    if "failed" in found:
        return 1
    from pytest_tfperf.training import worker

    return worker.work(channel, job)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # TensorFlow's exit handlers have hung with a dataset still open
