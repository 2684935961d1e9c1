"""From which files a worker has loaded its modules: the driver proves with them whose code it runs."""

from __future__ import annotations

import os
import site
import sys
import sysconfig

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.workload import Workload


def loaded_files(workload: Workload) -> dict[str, str]:
    """Module -> file, links followed: of the workload's own functions, of each package, and of all that is nobody's.

    Left out are modules inside of installed packages, of which there are thousands, and this package.
    """
    targets = (catalogue.resolve_model(workload.model), catalogue.resolve_pipeline(workload.input_pipeline))
    named = {target.partition(":")[0] for target in targets}
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] == "pytest_tfperf":
            continue
        if name in named or "." not in name or not _is_installed(file):
            found[name] = os.path.realpath(file)
    return found


def _is_installed(file: str) -> bool:
    return file.startswith(_INSTALLED)


_PATHS = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),)
_INSTALLED = tuple(
    f"{folder}{os.sep}" for folder in {*_PATHS, *site.getsitepackages(), site.getusersitepackages()} if folder
)
