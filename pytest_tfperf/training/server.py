"""The fork server: imports TensorFlow once, touches no device, and forks a worker for each job.

A launcher runs it as a module, with the driver's address in TFPERF_ADDRESS. It ends, with its workers, when the driver
closes the connection; when the driver is killed, the kernel ends them.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from pytest_tfperf.training.process import PINNED, call_driver, import_tensorflow, work
from pytest_tfperf.workers.process_end import die_with_parent, kill_group
from pytest_tfperf.workers.wire import Channel, ConnectionLost, connect


def main() -> None:
    """Serve until the driver closes the connection."""
    driver = int(os.environ.pop("TFPERF_PARENT"))
    die_with_parent(driver)
    address = os.environ.pop("TFPERF_ADDRESS")
    channel = connect(address)
    channel.send({"hello": "server"})
    os.environ.update(PINNED)
    versions = import_tensorflow()  # once for all workers
    channel.send(versions)
    if "failed" in versions:
        return
    import_module("pytest_tfperf.training.worker")  # once for all workers, too
    gc.collect()
    gc.freeze()  # imported modules stay shared with every worker instead of being copied by a collection
    channel.send({"ready": True})
    server = _Server(channel, address)
    die_with_parent(driver, signal.SIGHUP)  # not SIGKILL any more: the server must end its workers' process groups
    server.serve()
    os._exit(0)  # TensorFlow's exit handlers take seconds on a busy machine, and Ctrl-C waits for this


def open_accelerators(descriptors: Path = Path("/proc/self/fd")) -> list[str]:
    """The accelerator device files that this process has open; there must be none before a fork.

    CUDA that was initialised before a fork is unusable in every child.
    """
    files = []
    for entry in descriptors.iterdir():
        with suppress(OSError):
            files.append(str(entry.readlink()))
    return sorted(name for name in files if name.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")))


class _Server:
    def __init__(self, channel: Channel, address: str) -> None:
        self._channel = channel
        self._address = address
        self._workers: dict[int, int] = {}  # pid -> job number; the system may use a pid again
        self._driver_died = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only so that the wake-up descriptor is written
        signal.signal(signal.SIGHUP, self._note_death)

    def _note_death(self, *_: object) -> None:
        # Raising here could interrupt the killing in `serve`: a killed driver's connection closes before this signal.
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
                    self._fork(self._channel.receive()["fork"])
        for pid in self._workers:
            kill_group(pid)

    def _fork(self, number: int) -> None:
        if files := open_accelerators():
            self._channel.send(
                {"refused": f"the fork server has {', '.join(files)} open: CUDA would not survive a fork"}
            )
            return
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_worker(number, server)
        self._workers[pid] = number
        self._channel.send({"forked": pid})

    def _become_worker(self, number: int, server: int) -> None:
        """In the child: never returns into the server's loop, whatever happens."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            for end in (self._wake_reader, self._wake_writer):
                end.close()
            die_with_parent(server)
            status = work(*call_driver(self._address, number))
        except BaseException:  # the traceback belongs in the worker's log, not in the server's loop
            traceback.print_exc()
        finally:
            os._exit(status)

    def _reap(self) -> None:
        for pid, number in list(self._workers.items()):
            # WNOWAIT keeps the pid reserved, and its process group with it, until the group is killed.
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            kill_group(pid)  # processes that the worker started end with it
            del self._workers[pid]
            _, status = os.waitpid(pid, 0)
            self._channel.send({"exited": number, "status": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    main()
