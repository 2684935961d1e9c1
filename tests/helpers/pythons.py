"""Fake Pythons: scripts that a launcher runs as its interpreter, and that import no TensorFlow."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest_tfperf

_BEGIN = f"""\
#!{sys.executable} -P
import json, os, signal, subprocess, sys, time
sys.path.insert(0, {str(Path(pytest_tfperf.__file__).parents[1])!r})
from pytest_tfperf.workers.wire import connect

def call():
    return connect(os.environ["TFPERF_ADDRESS"])

def call_as_worker():
    channel = call()
    channel.send({{"hello": "worker", "number": int(os.environ["TFPERF_NUMBER"])}})
    return channel, channel.receive()

READY = {{
    "ready": {{
        "examples_per_step": 2, "unit": "images", "replicas": 1, "compile_seconds": 1.5,
        "fetches": True, "environment": {{"tf": "2.21"}}
    }}
}}

"""

_SERVER = """
import types
for name, version in {"tensorflow": "2.21.0", "keras": "3.15.0"}.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__version__ = version
worker = types.ModuleType("pytest_tfperf.training.worker")
worker.work = work
sys.modules["pytest_tfperf.training.worker"] = worker
from pytest_tfperf.training import server
server.main()
"""


def fake_python(folder: Path, script: str) -> str:
    """Runs this script whatever it is asked to run.

    `call()` is its channel to the driver; `call_as_worker()` gives the driver's message, too.
    """
    path = folder.absolute() / "python"
    path.write_text(_BEGIN + textwrap.dedent(script))
    path.chmod(0o755)
    return str(path)


def fake_server(folder: Path, script: str) -> str:
    """Runs the true fork server; the script defines `work(channel, message)`, what its workers do."""
    return fake_python(folder, textwrap.dedent(script) + _SERVER)
