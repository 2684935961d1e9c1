"""The profiler's traces of regressed tests, in the layout that TensorBoard and XProf open.

FOLDER/<test>/<session>/plugins/profile/<call>/<host>.xplane.pb
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import tempfile
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, final

from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_tfperf.core.profile import Trace

_MOST_CHARACTERS = 100  # file systems allow 255 bytes


@final
class TraceStore:
    """The folder of all traces.

    Args:
        folder: need not exist before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Make the folder and write into it once, so that a fault shows before the first measurement.

        Raises:
            TfperfError: it can't be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise TfperfError(
                f"--tfperf-profile-on-regression: {self.folder} can't be written: {error.strerror}; name another folder"
            ) from None

    def write(self, test: str, session: str, call: str, traces: Sequence[Trace]) -> Path:
        """Write the traces of one call's processes, rank 0 first; returns the folder of the test in this session.

        Raises:
            OSError: they can't be written; what was written of them is removed.
        """
        top = self.folder / file_name(test) / file_name(session)
        folder = top / "plugins" / "profile" / file_name(call)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for rank, trace in enumerate(traces):
                if rank and not trace.ops:  # it only lends its devices to rank 0
                    continue
                host = trace.host if len(traces) == 1 else f"rank{rank}-{trace.host}"
                data = zlib.decompress(base64.b64decode(trace.xspace))
                (folder / f"{file_name(host)}.xplane.pb").write_bytes(data)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):  # those with other traces stay
                for empty in (folder.parent, folder.parent.parent, top, top.parent):
                    empty.rmdir()
            raise
        return top


def file_name(text: str) -> str:
    """A name that any file system takes, and that differs for any other text.

    >>> file_name("tests/test_a.py::test_b[8-é]")
    'tests-test_a.py-test_b-8-a2a2d6c7'
    """
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.")[:_MOST_CHARACTERS]
    if name and name == text:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name}-{digest}".lstrip("-")
