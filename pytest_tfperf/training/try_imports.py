"""Tries what a worker would import, TensorFlow and then the user's functions; prints what it found as a line of JSON.

`revisions/pythons.py` runs it as a module, with {"import_paths": [...], "functions": [...]} as standard input.
"""

from __future__ import annotations

import importlib
import json
import sys

from pytest_tfperf.training.process import find_modules_in, import_tensorflow, pin_compute_settings


def main() -> None:
    """Print the versions or the fault of `import_tensorflow`, and "faults": function -> why it can't be imported."""
    request = json.load(sys.stdin)
    pin_compute_settings()
    found = import_tensorflow()
    find_modules_in(request["import_paths"])
    faults = {target: why for target in request["functions"] if (why := _fault(target))}
    print("\n" + json.dumps(found | {"faults": faults}))


def _fault(target: str) -> str:
    name, _, function = target.partition(":")
    try:
        module = importlib.import_module(name)
    except BaseException as error:  # a module may also exit
        return f"importing {name!r} raises {type(error).__name__}: {error}"
    return "" if callable(getattr(module, function, None)) else f"module {name!r} has no function {function!r}"


if __name__ == "__main__":
    main()
