"""The driver's libraries, played: libnvidia-ml.so.1 and libcuda.so.1, built with this machine's C compiler."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pynvml
import pytest

from tests.helpers.nvml_scenarios import SCENARIOS, Scenario, answers

_SOURCES = Path(__file__).parent / "libraries"
_LIBRARIES = {"libnvidia-ml.so.1": "nvml.c", "libcuda.so.1": "cuda.c"}

NvmlScenario = Callable[..., Path]


BuildLibrary = Callable[[Path, Path], None]


@pytest.fixture(scope="session")
def build_library() -> BuildLibrary:
    """Compiles a C file into a shared library, whose name the file's name is."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("there is no C compiler (cc, gcc or clang) to build the stand-ins for NVIDIA's libraries")

    def build(source: Path, library: Path) -> None:
        library.parent.mkdir(parents=True, exist_ok=True)
        options = ["-std=gnu11", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-x", "c"]
        subprocess.run([compiler, *options, "-o", library, source], check=True)

    return build


@pytest.fixture(scope="session")
def driver_libraries(build_library: BuildLibrary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the driver's libraries; for LD_LIBRARY_PATH."""
    folder = tmp_path_factory.mktemp("driver")
    for name, source in _LIBRARIES.items():
        build_library(_SOURCES / source, folder / name)
    return folder


@pytest.fixture
def nvml_scenario(driver_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvmlScenario:
    """Makes NVML describe a machine to this process and to those that it starts, through the real pynvml.

    `nvml_scenario("h100_lost")` takes a name of SCENARIOS or a `Scenario`; a second argument replaces answers of the
    stand-in: `nvml_scenario("h100_570", {"gpu.0.processes": "1:1000", "fail.nvmlDeviceGetTemperature": 3})`. Called
    again, it changes the machine, also for sessions that are open. Returns the file of answers.
    """
    file = tmp_path / "nvml.txt"
    path = os.environ.get("LD_LIBRARY_PATH")
    monkeypatch.setenv("FAKE_NVML", str(file))
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join(filter(None, (str(driver_libraries), path))))
    # The loader read LD_LIBRARY_PATH when this process began, and pynvml keeps the library and its functions.
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(driver_libraries / "libnvidia-ml.so.1")))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def play(scenario: str | Scenario, changed: Mapping[str, object] | None = None) -> Path:
        known = SCENARIOS[scenario] if isinstance(scenario, str) else scenario
        said = answers(known) | {key: str(value) for key, value in (changed or {}).items()}
        # Replaced, not written: another thread may be reading.
        file.with_suffix(".new").write_text("".join(f"{key} {value}\n" for key, value in said.items()))
        file.with_suffix(".new").replace(file)
        return file

    return play
