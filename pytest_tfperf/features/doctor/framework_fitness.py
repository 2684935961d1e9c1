"""Can CUDA and the installed frameworks use the GPUs? Its start and libraries, their builds and code for each GPU."""

from __future__ import annotations

import ast
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pytest_tfperf.core.topology import Gpu
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level
from pytest_tfperf.hardware.host import text_of
from pytest_tfperf.hardware.nvml import answer_of
from pytest_tfperf.reports.numbers import counted

Version = tuple[int, int]


class Driver(NamedTuple):
    """The NVIDIA driver, and what this process may use of its GPUs."""

    version: str  # "550.90.07"
    cuda: Version | None  # the newest version of CUDA that it knows, (12, 4)
    gpus: Sequence[Gpu]  # those that are visible, or have a visible MIG device
    usable: int  # how many devices a process can use


@dataclass(frozen=True, slots=True)
class Build:
    """The code for GPUs in TensorFlow's package."""

    cuda: Version  # its version of CUDA, (12, 5)
    targets: tuple[Version, ...]  # the compute capabilities with finished code
    compiled_by_drivers: tuple[Version, ...]  # those with PTX, from which a driver compiles code for later GPUs


@dataclass(frozen=True, slots=True)
class Libraries:
    """CUDA's libraries, as TensorFlow finds them."""

    missing: tuple[str, ...] = ()  # file names of those that it can't load
    # The folders of those of `missing` that pip has installed where TensorFlow does not look.
    beside: Mapping[str, Path] = field(default_factory=dict)
    cudnn: Version | None = None  # the version of cuDNN, (9, 10); None where it is not known

    @property
    def are_installed(self) -> bool:
        """Whether all are somewhere, if not where TensorFlow looks."""
        return self.beside.keys() >= set(self.missing)


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework of this Python."""

    name: str
    cuda: Version | None  # the version of CUDA that it was built for; None for a build without NVIDIA's GPUs
    install: str = ""  # the command that installs a build for GPUs
    counts: str = ""  # Python code that prints how many GPUs it sees; "" for TensorFlow: its libraries are tried
    build: Build | None = None  # of TensorFlow; None where it is not known
    libraries: Libraries | None = None  # as `build`


# NVIDIA, "CUDA Compatibility": all of CUDA 12 runs on the first driver of CUDA 12 or newer, all of 13 on that of 13.
_FIRST_DRIVERS = {12: "R525", 13: "R580"}

# PTX 8.6 and 8.7, which know Blackwell, came with CUDA 12.7 and 12.8.
_BLACKWELL, _CUDA_OF_BLACKWELL = (10, 0), (12, 8)

# Found in the packages themselves: cuDNN 9.10 has code from 5.0 on, 9.11 from 7.5 on (tools/gpu_architectures.py).
_CUDNN_WITHOUT_VOLTA, _TURING = (9, 11), (7, 5)

_INSTALL = "pip install 'tensorflow[and-cuda]'"
_PYTORCH = "install a build of https://pytorch.org/get-started/locally for the driver's CUDA"
_COUNT_OF_PYTORCH = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
_COUNT_OF_JAX = "import jax; print(len(jax.devices('gpu')))"


# NVML does not call CUDA, and answers where CUDA does not start.
_STARTS_CUDA = """
import ctypes
print(ctypes.CDLL("libcuda.so.1").cuInit(0))
"""
_SECONDS_TO_START = 60.0

# The codes of cuInit: their names in CUDA's header cuda.h, what they mean here, and the next step.
_CUDA_FAILS = {
    34: ("CUDA_ERROR_STUB_LIBRARY", "the toolkit's stub is found first", "take its folder `stubs` off LD_LIBRARY_PATH"),
    100: (
        "CUDA_ERROR_NO_DEVICE",
        "CUDA finds no GPU, and NVML does",
        "ls -l /dev/nvidia*   # a container needs each GPU's own file; and see what CUDA_VISIBLE_DEVICES names",
    ),
    101: ("CUDA_ERROR_INVALID_DEVICE", "a GPU that it finds can't be used", "sudo dmesg | grep -i nvrm"),
    802: (
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "the fabric manager does not run, or has not yet connected the NVSwitches",
        "sudo systemctl restart nvidia-fabricmanager   # its version must be the driver's",
    ),
    803: (
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "libcuda.so.1 and the kernel module have different versions",
        "reboot, or reload the module, after a driver's update; in a container, take cuda-compat off LD_LIBRARY_PATH",
    ),
    804: (
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "cuda-compat, for newer CUDA on older drivers, does not work on this GPU",
        "take cuda-compat off LD_LIBRARY_PATH, and install a newer NVIDIA driver",
    ),
    999: (
        "CUDA_ERROR_UNKNOWN",
        "mostly nvidia_uvm is not loaded, or /dev/nvidia-uvm can't be opened",
        "sudo nvidia-modprobe -u -c=0   # then, as after a suspend: sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm",
    ),
}


def software_findings(driver: Driver) -> Iterator[Finding]:
    """Whether CUDA starts, and what the installed frameworks can do with the driver and each GPU, if there is any."""
    if not driver.gpus:
        return
    start = start_of_cuda()
    yield start
    if start.level is Level.OK:
        frameworks = installed()
        yield from framework_findings(frameworks, driver)
        for gpu in driver.gpus:
            for framework in frameworks:
                yield from code_findings(gpu, framework, driver.cuda)


def start_of_cuda() -> Finding:
    """Whether CUDA starts, tried in a process of its own."""
    answer = answer_of(_STARTS_CUDA, seconds=_SECONDS_TO_START)
    if answer is None:
        fact, fix = f"cuInit did not return within {_SECONDS_TO_START:g} s", "sudo dmesg | grep -i xid   # then reboot"
        return Finding(Check.CUDA, Level.UNFIT, fact, fix)
    code = answer.stdout.strip()
    if code == "0":
        return Finding(Check.CUDA, Level.OK, "cuInit succeeds")
    if not code.isdecimal():
        fact = next(iter(answer.stderr.strip().splitlines()[-1:]), f"cuInit ended with status {answer.returncode}")
        fix = "libcuda.so.1 comes with the driver; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        return Finding(Check.CUDA, Level.UNFIT, fact, fix)
    unknown = ("", "CUDA does not start", "look for the code in cuda.h, and see: sudo dmesg | grep -i nvrm")
    name, meaning, fix = _CUDA_FAILS.get(int(code), unknown)
    return Finding(Check.CUDA, Level.UNFIT, f"cuInit fails with {code} {name}".rstrip() + f": {meaning}", fix)


def framework_findings(frameworks: Sequence[Framework], driver: Driver) -> Iterator[Finding]:
    """Whether frameworks can use the driver's GPUs.

    One for CPUs is in order beside one for GPUs: PyTorch's users install tensorflow-cpu for TensorBoard. A TensorFlow
    for GPUs without CUDA's libraries, as `pip install tensorflow` installs it, may be a fault, so it is a warning.
    """
    for_gpus = [framework.name for framework in frameworks if framework.cuda]
    for framework in frameworks:
        if framework.cuda is None:
            yield _of_build_for_cpus(framework, for_gpus)
        else:
            yield _of_build_for_gpus(framework, framework.cuda, driver)
        if framework.libraries is not None:
            yield _libraries(framework.libraries, [name for name in for_gpus if name != framework.name])


def _of_build_for_cpus(framework: Framework, for_gpus: Sequence[str]) -> Finding:
    fact = f"the installed {framework.name} is built without CUDA, for CPUs"
    if for_gpus:
        return Finding(Check.FRAMEWORK, Level.OK, f"{fact}; for GPUs there is {' and '.join(for_gpus)}")
    fix = framework.install
    if fix == _INSTALL and platform.machine() == "aarch64":
        fix = "PyPI has no TensorFlow for GPUs on ARM: take NVIDIA's container or another build"
    return Finding(Check.FRAMEWORK, Level.UNFIT, fact, fix)


def _of_build_for_gpus(framework: Framework, built_for: Version, driver: Driver) -> Finding:
    name, wanted = framework.name, f"the installed {framework.name} was built for CUDA {_dotted(built_for)}"
    cuda = driver.cuda
    if cuda is not None and cuda[0] < built_for[0]:
        fact = f"{wanted}, and the driver {driver.version} knows CUDA {_dotted(cuda)} at most"
        first = _FIRST_DRIVERS.get(built_for[0], f"one of CUDA {built_for[0]}.0")
        other = f", or a {name} for CUDA {cuda[0]}" if cuda >= (12, 0) else ""  # no supported one is older
        fix = f"install a newer NVIDIA driver, {first} or newer{other}"
        return Finding(Check.FRAMEWORK, Level.UNFIT, fact, fix)
    if not framework.counts:
        return Finding(Check.FRAMEWORK, Level.OK, wanted)
    seen = gpus_seen_by(framework)
    if isinstance(seen, str):
        return Finding(Check.FRAMEWORK, Level.UNFIT, f"{wanted}, and sees no GPU: {seen}", framework.install)
    fact = f"{wanted}, and sees {seen} of {counted(driver.usable, 'GPU')}"
    if seen == driver.usable:
        return Finding(Check.FRAMEWORK, Level.OK, fact)
    return Finding(Check.FRAMEWORK, Level.WARNING, fact, f"python -c {framework.counts!r}   # its log may say why")


def gpus_seen_by(framework: Framework) -> int | str:
    """How many GPUs a framework sees, asked in a process of its own, or why it does not say."""
    # JAX would take three quarters of each GPU's memory.
    answer = answer_of(framework.counts, seconds=_SECONDS_OF_IMPORT, environ={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    if answer is None:
        return f"it did not answer within {_SECONDS_OF_IMPORT:g} s"
    said, log = (text.strip().splitlines() or [""] for text in (answer.stdout, answer.stderr))
    if answer.returncode == 0 and said[-1].isdecimal():
        warnings = [line.partition("Warning: ")[2] for line in log if "Warning: CUDA" in line]
        return int(said[-1]) or "; ".join(warnings)[:_COLUMNS] or "it gives no reason"
    unindented = [line for line in log if line[:1].strip()]
    return (unindented or [f"it ended with status {answer.returncode}"])[-1][:_COLUMNS]


def _libraries(libraries: Libraries, others_for_gpus: Sequence[str]) -> Finding:
    missing, beside = libraries.missing, libraries.beside
    names = ", ".join(missing)
    if not libraries.are_installed:
        fact, level = f"TensorFlow can't load {names}", Level.UNFIT
        if others_for_gpus:
            fact, level = f"{fact}, and uses CPUs; for GPUs there is {' and '.join(others_for_gpus)}", Level.WARNING
        return Finding(Check.CUDA_LIBRARIES, level, fact, _INSTALL)
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


def code_findings(gpu: Gpu, tensorflow: Framework, cuda: Version | None) -> Iterator[Finding]:
    """Whether TensorFlow and cuDNN have code for a GPU; nothing where TensorFlow uses none, for lack of libraries.

    Finished code runs on the same major version from its minor one on. PTX runs on all later GPUs, if the driver knows
    the CUDA that wrote it: TensorFlow 2.21's of CUDA 12.5, most of the code that it has for Hopper, needs R555.

    `cuda` is the newest version that the driver knows.
    """
    capability, build, libraries = gpu.compute_capability, tensorflow.build, tensorflow.libraries
    if capability is None or build is None or (libraries is not None and not libraries.are_installed):
        return
    name, wanted = f"GPU {gpu.index}, compute capability {_dotted(capability)}", _dotted(build.cuda)
    cudnn = None if libraries is None else libraries.cudnn
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
        fact = f"{name}: the driver compiles TensorFlow's, in the first steps"
        # CUDA C++ Programming Guide, CUDA environment variables.
        cache = Path(os.environ.get("CUDA_CACHE_PATH") or Path(os.environ.get("HOME", "/"), ".nv/ComputeCache"))
        if cache.is_dir() and any(cache.iterdir()):
            yield Finding(Check.GPU_CODE, Level.OK, f"{fact}, and keeps it in {cache}")
            return
        fix = f"-o tfperf_timeout=3600 in the first session, and keep {cache} (variable CUDA_CACHE_PATH) for later ones"
        yield Finding(Check.GPU_CODE, Level.WARNING, f"{fact}, which may take 30 minutes: {cache} is empty", fix)


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def installed() -> list[Framework]:
    """This Python's frameworks, without the seconds of their imports."""
    found = []
    for folder in _folders("tensorflow"):
        build = parsed_build(text_of(folder / "python/platform/build_info.py"))
        libraries = cuda_libraries(folder) if build is not None else None
        found.append(Framework("TensorFlow", build.cuda if build else None, _INSTALL, "", build, libraries))
    for folder in _folders("torch"):
        built_for = re.search(r"^cuda\b.*= '(\d+)\.(\d+)", text_of(folder / "version.py"), re.MULTILINE)
        cuda = (int(built_for[1]), int(built_for[2])) if built_for else None
        found.append(Framework("PyTorch", cuda, _PYTORCH, _COUNT_OF_PYTORCH))
    if _folders("jax"):
        # One package for each version of CUDA.
        major = max((number for number in range(12, 20) if _folders(f"jax_cuda{number}_plugin")), default=None)
        install = "pip install 'jax[cuda12]'"
        found.append(Framework("JAX", None if major is None else (major, 0), install, _COUNT_OF_JAX))
    return found


def _folders(module: str) -> list[Path]:
    spec = find_spec(module)
    return [Path(folder) for folder in (spec.submodule_search_locations if spec is not None else None) or ()][:1]


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
_SECONDS_OF_IMPORT = 90.0  # of PyTorch from a network file system, with a cold cache
_COLUMNS = 200
_NOT_LOADED = re.compile(r"Could not load dynamic library '([^']+)'")


def cuda_libraries(folder: Path) -> Libraries | None:
    """CUDA's libraries as the TensorFlow in this folder finds them, tried in a process of its own.

    None where that can't be tried: on other CPUs than x86-64, the only ones for which PyPI has TensorFlow with CUDA.
    """
    if platform.machine() != "x86_64":
        return None
    logs = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "dso_loader=1"}
    tried = answer_of(_LOADS_ALL, str(folder / "libtensorflow_framework.so.2"), seconds=_SECONDS, environ=logs)
    if tried is None or not tried.stdout.startswith("tried"):
        return None
    missing = tuple(_NOT_LOADED.findall(tried.stderr))
    found = {name: path.parent for name in missing for path in folder.parent.glob(f"nvidia/*/lib/{name}")}
    # 91002 is 9.10.2; cuDNN 8, whose numbers have four digits, belongs to no TensorFlow since 2.18.
    number = tried.stdout.split()[1:]
    return Libraries(missing, found, (int(number[0]) // 10000, int(number[0]) // 100 % 100) if number else None)
