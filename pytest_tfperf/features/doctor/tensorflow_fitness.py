"""Can the installed TensorFlow use the GPUs? Its build, CUDA's libraries, and their code for each GPU."""

from __future__ import annotations

import ast
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from pytest_tfperf.core.topology import Gpu
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level
from pytest_tfperf.hardware.host import text_of

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Build:
    """The code for GPUs in TensorFlow's package.

    Args:
        cuda: its version of CUDA, (12, 5).
        targets: the compute capabilities with finished code.
        compiled_by_drivers: the compute capabilities with PTX, from which a driver compiles code for later GPUs.
    """

    cuda: Version
    targets: tuple[Version, ...]
    compiled_by_drivers: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class Libraries:
    """CUDA's libraries, as TensorFlow finds them.

    Args:
        missing: file names of those that it can't load.
        beside: the folders of those of `missing` that pip has installed where TensorFlow does not look.
        cudnn: the version of cuDNN, (9, 10); None where it is not known.
    """

    missing: tuple[str, ...] = ()
    beside: Mapping[str, Path] = field(default_factory=dict)
    cudnn: Version | None = None


@dataclass(frozen=True, slots=True)
class Installed:
    """The TensorFlow of this Python.

    Args:
        build: None for a build without NVIDIA's GPUs.
        libraries: None where they were not looked for.
    """

    build: Build | None
    libraries: Libraries | None = None


# NVIDIA, "CUDA Compatibility": all of CUDA 12 runs on the first driver of CUDA 12 or newer, all of 13 on that of 13.
_FIRST_DRIVERS = {12: "R525", 13: "R580"}

# PTX 8.6 and 8.7, which know Blackwell, came with CUDA 12.7 and 12.8.
_BLACKWELL, _CUDA_OF_BLACKWELL = (10, 0), (12, 8)

# Found in the packages themselves: cuDNN 9.10 has code from 5.0 on, 9.11 from 7.5 on (tools/gpu_architectures.py).
_CUDNN_WITHOUT_VOLTA, _TURING = (9, 11), (7, 5)

_INSTALL = "pip install 'tensorflow[and-cuda]'"


def build_findings(tensorflow: Installed, driver: str, cuda: Version | None, machine: str = "") -> Iterator[Finding]:
    """Whether TensorFlow can use any GPU here.

    Args:
        tensorflow: the installed one.
        driver: its version, "550.90.07".
        cuda: the newest that the driver knows.
        machine: the kind of CPU; "" asks the kernel.
    """
    build, libraries = tensorflow.build, tensorflow.libraries
    if build is None:
        arm = (machine or platform.machine()) == "aarch64"
        fix = "PyPI has no TensorFlow for GPUs on ARM: take NVIDIA's container or another build" if arm else _INSTALL
        yield Finding(Check.TENSORFLOW, Level.UNFIT, "the installed TensorFlow is built without CUDA, for CPUs", fix)
        return
    wanted = f"the installed TensorFlow was built for CUDA {_dotted(build.cuda)}"
    if cuda is not None and cuda[0] < build.cuda[0]:
        fact = f"{wanted}, and the driver {driver} knows CUDA {_dotted(cuda)} at most"
        first = _FIRST_DRIVERS.get(build.cuda[0], f"one of CUDA {build.cuda[0]}.0")
        yield Finding(Check.TENSORFLOW, Level.UNFIT, fact, f"install a newer NVIDIA driver, {first} or newer")
    else:
        yield Finding(Check.TENSORFLOW, Level.OK, wanted)
    if libraries is not None:
        yield _libraries(libraries)


def _libraries(libraries: Libraries) -> Finding:
    missing, beside = libraries.missing, libraries.beside
    names = ", ".join(missing)
    if any(name not in beside for name in missing):
        return Finding(Check.CUDA_LIBRARIES, Level.UNFIT, f"TensorFlow can't load {names}", _INSTALL)
    if missing:
        fact, fix = (
            f"TensorFlow does not find {names}, which pip installed in another folder",
            f"export LD_LIBRARY_PATH={os.pathsep.join(dict.fromkeys(map(str, beside.values())))}",
        )
        # training/devices.py
        if all(name.startswith("libcusolver.") for name in missing):
            fact += ": tfperf's own workers load it, and programs of yours use no GPU"
            return Finding(Check.CUDA_LIBRARIES, Level.WARNING, fact, fix)
        return Finding(Check.CUDA_LIBRARIES, Level.UNFIT, fact, fix)
    cudnn = f", cuDNN {_dotted(libraries.cudnn)}" if libraries.cudnn else ""
    return Finding(Check.CUDA_LIBRARIES, Level.OK, f"TensorFlow finds them all{cudnn}")


def code_findings(
    gpu: Gpu, tensorflow: Installed, cuda: Version | None, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Whether TensorFlow and cuDNN have code for a GPU.

    Finished code runs on the same major version from its minor one on. PTX runs on all later GPUs, if the driver knows
    the CUDA that wrote it: TensorFlow 2.21's of CUDA 12.5, most of the code that it has for Hopper, needs R555.

    Args:
        gpu: the GPU.
        tensorflow: the installed one.
        cuda: the newest that the driver knows.
        environ: CUDA_CACHE_PATH and HOME lead to the driver's compiled code.
    """
    capability, build = gpu.compute_capability, tensorflow.build
    if capability is None or build is None:
        return
    name, wanted = f"GPU {gpu.index}, compute capability {_dotted(capability)}", _dotted(build.cuda)
    cudnn = tensorflow.libraries.cudnn if tensorflow.libraries else None
    if any(target[0] == capability[0] and target <= capability for target in build.targets):
        if cudnn is not None and cudnn >= _CUDNN_WITHOUT_VOLTA and capability < _TURING:
            fact = f"{name}: TensorFlow has it, and cuDNN {_dotted(cudnn)} does not"
            yield Finding(Check.GPU_CODE, Level.UNFIT, fact, "pip install 'nvidia-cudnn-cu12<9.11'")
        else:
            yield Finding(Check.GPU_CODE, Level.OK, f"{name}: in the installed TensorFlow")
    elif not any(target <= capability for target in build.compiled_by_drivers):
        fix = "install a TensorFlow that was built for it, or measure on another GPU"
        yield Finding(Check.GPU_CODE, Level.UNFIT, f"{name}: the installed TensorFlow has none and ignores it", fix)
    elif cuda is not None and cuda < build.cuda:
        fact = f"{name}: a driver of CUDA {wanted} must compile TensorFlow's, and this one knows CUDA {_dotted(cuda)}"
        drivers = "R555 or newer" if build.cuda == (12, 5) else f"one of CUDA {wanted} or newer"
        yield Finding(Check.GPU_CODE, Level.UNFIT, fact, f"install a newer NVIDIA driver, {drivers}")
    elif capability >= _BLACKWELL and build.cuda < _CUDA_OF_BLACKWELL:
        fact = f"{name}: newer than CUDA {wanted}, so the XLA of the installed TensorFlow can't compile for it"
        fix = "use a TensorFlow of CUDA 12.8 or newer (NVIDIA's container), and xla=False until then"
        yield Finding(Check.GPU_CODE, Level.WARNING, fact, fix)
    else:
        fact, cache = f"{name}: the driver compiles TensorFlow's, in the first steps", _compiled_code(environ)
        if cache.is_dir() and any(cache.iterdir()):
            yield Finding(Check.GPU_CODE, Level.OK, f"{fact}, and keeps it in {cache}")
            return
        fix = f"-o tfperf_timeout=3600 in the first session, and keep {cache} (variable CUDA_CACHE_PATH) for later ones"
        yield Finding(Check.GPU_CODE, Level.WARNING, f"{fact}, which may take 30 minutes: {cache} is empty", fix)


def _compiled_code(environ: Mapping[str, str]) -> Path:
    """The folder of the driver's compiled code (CUDA C++ Programming Guide, CUDA environment variables)."""
    return Path(environ.get("CUDA_CACHE_PATH") or Path(environ.get("HOME", "/"), ".nv/ComputeCache"))


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def installed() -> Installed | None:
    """This Python's TensorFlow, without the seconds of an import; None where it is not installed."""
    spec = find_spec("tensorflow")
    for folder in map(Path, (spec.submodule_search_locations if spec is not None else None) or ()):
        build = parsed_build(text_of(folder / "python/platform/build_info.py"))
        return Installed(build, cuda_libraries(folder) if build is not None else None)
    return None


def parsed_build(text: str) -> Build | None:
    """The build in a text of TensorFlow's build_info.py; None for a build without NVIDIA's GPUs."""
    cuda = re.search(r"'cuda_version', '(\d+)\.(\d+)", text)
    listed = re.search(r"'cuda_compute_capabilities', (\[[^]]*\])", text)
    if cuda is None or listed is None:
        return None
    capabilities: dict[str, list[Version]] = {"sm": [], "compute": []}
    for name in ast.literal_eval(listed[1]):
        kind, _, digits = str(name).partition("_")
        if kind in capabilities and digits.isdecimal():
            capabilities[kind].append((int(digits[:-1]), int(digits[-1])))
    return Build((int(cuda[1]), int(cuda[2])), tuple(capabilities["sm"]), tuple(capabilities["compute"]))


# TensorFlow's own function, which loads all that it needs before it accepts a GPU; it calls no CUDA. It returns a
# status, whose address is an argument in this CPU's calling convention only. Its log names what it can't load.
_LOADS_ALL = """
import ctypes, sys
framework = ctypes.CDLL(sys.argv[1])
framework._ZN3tsl8internal9DsoLoader26MaybeTryDlopenGPULibrariesEv(ctypes.create_string_buffer(64))
print("tried")
cudnn = ctypes.CDLL("libcudnn.so.9")
print(cudnn.cudnnGetVersion())
"""
_SECONDS = 30.0
_NOT_LOADED = re.compile(r"Could not load dynamic library '([^']+)'")


def cuda_libraries(folder: Path) -> Libraries | None:
    """CUDA's libraries as the TensorFlow in this folder finds them, tried in a process of its own.

    None where that can't be tried: on other CPUs than x86-64, the only ones for which PyPI has TensorFlow with CUDA.
    """
    if platform.machine() != "x86_64":
        return None
    command = [sys.executable, "-c", _LOADS_ALL, str(folder / "libtensorflow_framework.so.2")]
    logs = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "dso_loader=1"}
    try:
        tried = subprocess.run(
            command, env=os.environ | logs, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if not tried.stdout.startswith("tried"):
        return None
    missing = tuple(_NOT_LOADED.findall(tried.stderr))
    found = {name: path.parent for name in missing for path in folder.parent.glob(f"nvidia/*/lib/{name}")}
    # 91002 is 9.10.2; cuDNN 8, whose numbers have four digits, belongs to no TensorFlow since 2.18.
    number = tried.stdout.split()[1:]
    return Libraries(missing, found, (int(number[0]) // 10000, int(number[0]) // 100 % 100) if number else None)
