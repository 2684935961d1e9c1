"""The files that workers leave behind, logs and temporary folders, and the removal of old ones."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

_LOGS_KEPT_SECONDS = 30 * 86_400.0
# Exactly as `WorkerFiles` names them: the folder may be a project's own `logs/`.
_OUR_LOG = re.compile(r"(worker|server)-\d{8}-\d{6}-\d+-[0-9a-f]{4}(-\d+(-engine|-command|-rank\d+)?)?\.log")

_SCRATCH = "tfperf-worker-"
_SCRATCH_KEPT_SECONDS = 2 * 86_400.0  # longer than any worker lives


class WorkerFiles:
    """Names the files of one launcher's workers, so that no two launchers share a file."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        # pytest in a container may always have the same pid, and a comparison starts two launchers in one second.
        self._name = f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}-{secrets.token_hex(2)}"

    @property
    def server_log(self) -> Path:
        """The fork server's log."""
        return self._logs / f"server-{self._name}.log"

    def worker_log(self, number: int, part: str = "") -> Path:
        """The log of a worker, or of a part of a job on several nodes: "engine", "rank0" or "command"."""
        self._logs.mkdir(parents=True, exist_ok=True)
        end = f"-{part}" if part else ""
        return self._logs / f"worker-{self._name}-{number}{end}.log"

    def new_scratch_folder(self) -> Path:
        """An empty folder for one worker's temporary files."""
        return Path(tempfile.mkdtemp(prefix=_SCRATCH))

    def remove_old(self) -> None:
        """Remove our logs that are older than a month, and temporary folders that killed sessions left."""
        for log in self._logs.glob("*.log"):
            if _OUR_LOG.fullmatch(log.name) and _is_older(log, _LOGS_KEPT_SECONDS):
                with suppress(OSError):
                    log.unlink()
        for scratch in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
            if _is_older(scratch, _SCRATCH_KEPT_SECONDS):
                shutil.rmtree(scratch, ignore_errors=True)


def _is_older(path: Path, seconds: float) -> bool:
    """Whether it belongs to this user and was last written to longer ago than this."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and found.st_mtime < time.time() - seconds
