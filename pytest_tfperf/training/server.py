"""The fork server: imports TensorFlow once, touches no device, and forks a worker for each measurement.

Run by a launcher as `pytest_tfperf.training.server`, with the driver's address in TFPERF_ADDRESS. It leaves when the
driver closes the connection and takes its workers with it; when the driver is killed, the kernel does both.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_tfperf.training.process import (
    become_worker,
    call_driver,
    compute_as_asked,
    die_with_parent,
    import_tensorflow,
)
from pytest_tfperf.workers.wire import Address, Channel, ConnectionLost, connect


def main() -> None:
    """Serve until the driver hangs up."""
    driver = int(os.environ.pop("TFPERF_PARENT"))
    die_with_parent(driver)
    address = Address.parse(os.environ.pop("TFPERF_ADDRESS"))
    channel = connect(address)
    channel.send({"hello": "server", "pid": os.getpid()})
    compute_as_asked()
    found = import_tensorflow()  # once for all workers
    channel.send(found)
    if "failed" in found:
        return
    from pytest_tfperf.training import worker  # noqa: F401

    gc.collect()
    gc.freeze()  # what is imported stays shared with every worker instead of being copied by a collection
    channel.send({"ready": True})
    server = _Server(channel, address)
    die_with_parent(driver, signal.SIGHUP)  # from now on there are workers, whose children no one else would end
    server.serve()
    os._exit(0)  # TensorFlow's exit handlers take seconds on a busy machine, and Ctrl-C waits for this


def open_accelerators(descriptors: Path = Path("/proc/self/fd")) -> list[str]:
    """The accelerator device files that this process holds open; must be none before a fork.

    CUDA that was initialised before a fork is unusable after it, in every child.
    """
    held = []
    for entry in descriptors.iterdir():
        with suppress(OSError):
            held.append(str(entry.readlink()))
    return sorted(name for name in held if name.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")))


class _Server:
    def __init__(self, channel: Channel, address: Address) -> None:
        self._channel = channel
        self._address = address
        self._workers: dict[int, int] = {}  # pid -> the job's number; a pid may be another worker's some day
        self._driver_died = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only so that the wake-up descriptor is written
        signal.signal(signal.SIGHUP, self._note_death)

    def _note_death(self, *_: object) -> None:
        # Raising here could break off the killing below: a driver that is killed closes its connection first.
        self._driver_died = True

    def serve(self) -> None:
        with suppress(ConnectionLost):
            while not self._driver_died:
                ends: list[Channel | socket.socket] = [self._channel, self._wake_reader]
                ready, _, _ = select.select(ends, [], [])
                if self._wake_reader in ready:
                    self._wake_reader.recv(4096)
                    self._reap()
                if self._channel in ready:
                    self._do(self._channel.receive())
        for pid in self._workers:
            _kill(pid)

    def _do(self, message: dict[str, Any]) -> None:
        """A job, or the number of one whose worker is to be killed; it may have ended meanwhile."""
        if "kill" not in message:
            self._fork(message)
            return
        for pid, number in self._workers.items():
            if number == message["kill"]:
                _kill(pid)

    def _fork(self, job: dict[str, Any]) -> None:
        if held := open_accelerators():
            self._channel.send(
                {"refused": f"the fork server holds {', '.join(held)} open: CUDA would not survive a fork"}
            )
            return
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(job, server)
        self._workers[pid] = job["number"]
        self._channel.send({"forked": pid})

    def _become(self, job: dict[str, Any], server: int) -> None:
        """In the child: never returns into the server's loop, whatever happens."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            for end in (self._wake_reader, self._wake_writer, self._channel):
                end.close()
            die_with_parent(server)
            become_worker(Path(job["log"]), job["environment"], job["import_paths"])
            from pytest_tfperf.training import worker

            status = worker.work(call_driver(self._address, job), job)
        except BaseException:  # a worker's last words belong in its log, not in the server's loop
            traceback.print_exc()
        finally:
            os._exit(status)

    def _reap(self) -> None:
        for pid, number in list(self._workers.items()):
            # Waited for, a worker's pid is free; and that of its group too, when the group has no one left.
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill(pid)  # what the worker itself started goes with it
            del self._workers[pid]
            _, status = os.waitpid(pid, 0)
            self._channel.send({"exited": number, "status": os.waitstatus_to_exitcode(status)})


def _kill(worker: int) -> None:
    """SIGKILL to a worker that was not waited for yet, and to all in its group."""
    for kill in (os.killpg, os.kill):  # the group is missing while a worker has not yet made its own
        with suppress(ProcessLookupError, PermissionError):
            kill(worker, signal.SIGKILL)


if __name__ == "__main__":
    main()
