"""What `tfperf doctor` finds of the installed TensorFlow, of CUDA's libraries, and of their code for a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_tfperf.core.topology import Gpu
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level
from pytest_tfperf.features.doctor.tensorflow_fitness import (
    Build,
    Installed,
    Libraries,
    build_findings,
    code_findings,
    cuda_libraries,
    installed,
    parsed_build,
)
from tests.helpers.stand_in_libraries import BuildLibrary

TF_2_21 = Build((12, 5), ((6, 0), (7, 0), (8, 0), (8, 9)), ((9, 0),))  # its build_info.py
TF_NEXT = Build((12, 8), ((8, 0), (9, 0)), ((12, 0),))
CPU_BUILD = "build_info = collections.OrderedDict([('cpu_compiler', 'clang'), ('is_cuda_build', False)])"


def of_code(
    capability: tuple[int, int],
    cuda: tuple[int, int] = (12, 8),
    build: Build = TF_2_21,
    libraries: Libraries | None = None,
    environ: Mapping[str, str] | None = None,
) -> Finding:
    gpu = Gpu(index=0, uuid="GPU-0", name="a GPU", compute_capability=capability)
    (finding,) = code_findings(gpu, Installed(build, libraries), cuda, environ or {"HOME": "/none"})
    return finding


@pytest.mark.parametrize(
    ("capability", "cuda", "build", "level", "said"),
    [
        ((3, 7), (11, 4), TF_2_21, Level.UNFIT, "ignores it"),
        ((6, 1), (12, 2), TF_2_21, Level.OK, "in the installed"),
        ((8, 6), (12, 2), TF_2_21, Level.OK, "in the installed"),
        ((9, 0), (12, 4), TF_2_21, Level.UNFIT, "a driver of CUDA 12.5 must compile TensorFlow's, and this one knows"),
        ((9, 0), (12, 5), TF_2_21, Level.WARNING, "the driver compiles"),
        ((9, 0), (13, 0), TF_2_21, Level.WARNING, "/none/.nv/ComputeCache is empty"),
        ((12, 0), (12, 4), TF_2_21, Level.UNFIT, "this one knows CUDA 12.4"),
        ((10, 0), (13, 0), TF_2_21, Level.WARNING, "XLA of the installed TensorFlow can't"),
        ((12, 0), (13, 0), TF_NEXT, Level.WARNING, "the driver compiles"),
    ],
)
def test_a_gpu_needs_code_in_tensorflow_or_a_driver_that_can_compile_it(
    capability: tuple[int, int], cuda: tuple[int, int], build: Build, level: Level, said: str
) -> None:
    finding = of_code(capability, cuda, build)
    assert (finding.level, said in finding.fact) == (level, True)


def test_code_that_the_driver_has_compiled_before_is_in_order(tmp_path: Path) -> None:
    (tmp_path / "index").touch()
    assert of_code((9, 0), environ={"CUDA_CACHE_PATH": str(tmp_path)}).level is Level.OK


@pytest.mark.parametrize(
    ("capability", "cudnn", "level"),
    [
        ((6, 0), (9, 10), Level.OK),
        ((6, 0), (9, 11), Level.UNFIT),
        ((7, 0), (9, 28), Level.UNFIT),
        ((7, 5), (9, 28), Level.OK),
        ((7, 0), None, Level.OK),
    ],
)
def test_a_gpu_before_turing_needs_a_cudnn_before_9_11(
    capability: tuple[int, int], cudnn: tuple[int, int] | None, level: Level
) -> None:
    assert of_code(capability, libraries=Libraries(cudnn=cudnn)).level is level


def of_build(build: Build | None, cuda: tuple[int, int] | None = (12, 8), machine: str = "x86_64") -> Finding:
    (finding,) = build_findings(Installed(build), "470.256.02", cuda, machine)
    return finding


@pytest.mark.parametrize(
    ("cuda", "level"),
    [((11, 4), Level.UNFIT), ((12, 0), Level.OK), ((12, 4), Level.OK), ((13, 0), Level.OK), (None, Level.OK)],
)
def test_all_of_cuda_12_runs_on_each_driver_of_cuda_12_or_newer(cuda: tuple[int, int] | None, level: Level) -> None:
    assert of_build(TF_2_21, cuda).level is level


def test_a_driver_that_is_too_old_is_named_with_the_first_that_is_not() -> None:
    finding = of_build(TF_2_21, (11, 4))
    assert finding.fact == (
        "the installed TensorFlow was built for CUDA 12.5, and the driver 470.256.02 knows CUDA 11.4 at most"
    )
    assert finding.fix == "install a newer NVIDIA driver, R525 or newer"


@pytest.mark.parametrize(
    ("machine", "fix"), [("x86_64", "pip install 'tensorflow[and-cuda]'"), ("aarch64", "PyPI has no TensorFlow for")]
)
def test_a_tensorflow_for_cpus_beside_a_gpu_is_unfit(machine: str, fix: str) -> None:
    finding = of_build(parsed_build(CPU_BUILD), machine=machine)
    assert (finding.level, finding.fix.startswith(fix)) == (Level.UNFIT, True)


CUSOLVER = {"libcusolver.so.11": Path("/site/nvidia/cusolver/lib")}
CUDNN = {"libcudnn.so.9": Path("/site/nvidia/cudnn/lib")}


@pytest.mark.parametrize(
    ("libraries", "level", "fact", "fix"),
    [
        (Libraries(cudnn=(9, 10)), Level.OK, "TensorFlow finds them all, cuDNN 9.10", ""),
        (
            Libraries(("libcudart.so.12", "libcusolver.so.11"), CUSOLVER),
            Level.UNFIT,
            "TensorFlow can't load libcudart.so.12, libcusolver.so.11",
            "pip install 'tensorflow[and-cuda]'",
        ),
        (
            Libraries(("libcusolver.so.11",), CUSOLVER),
            Level.WARNING,
            "TensorFlow does not find libcusolver.so.11, which pip installed in another folder: tfperf's own workers "
            "load it, and programs of yours use no GPU",
            "export LD_LIBRARY_PATH=/site/nvidia/cusolver/lib",
        ),
        (
            Libraries(("libcudnn.so.9",), CUDNN),
            Level.UNFIT,
            "TensorFlow does not find libcudnn.so.9, which pip installed in another folder",
            "export LD_LIBRARY_PATH=/site/nvidia/cudnn/lib",
        ),
    ],
    ids=["all there", "not installed", "TensorFlow 2.21", "not found"],
)
def test_libraries_that_tensorflow_can_not_load_are_named(
    libraries: Libraries, level: Level, fact: str, fix: str
) -> None:
    _, finding = build_findings(Installed(TF_2_21, libraries), "570.86.15", (12, 8))
    assert finding == Finding(Check.CUDA_LIBRARIES, level, fact, fix)


def test_the_installed_tensorflow_says_what_it_is_made_of_without_an_import() -> None:
    found = installed()
    assert found is not None
    assert found.build is not None
    assert found.build.cuda >= (12, 3)
    assert (9, 0) in found.build.compiled_by_drivers + found.build.targets


def test_tensorflow_says_itself_which_libraries_it_can_not_load(
    build_library: BuildLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec("tensorflow")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0])
    before = cuda_libraries(folder)
    if before is None or not before.missing:
        pytest.skip("this machine has CUDA's libraries, or a CPU for which PyPI has no TensorFlow with CUDA")
    for name in before.missing:
        build_library(Path("/dev/null"), tmp_path / name)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert cuda_libraries(folder) == Libraries()


def test_the_trial_of_libraries_touches_no_gpu(driver_libraries: Path, tmp_path: Path) -> None:
    """A GPU in exclusive mode, or one that hangs, must not hinder it."""
    code = "from pytest_tfperf.features.doctor.tensorflow_fitness import installed; print(installed())"
    log = tmp_path / "cuda.log"
    environment = {"LD_LIBRARY_PATH": str(driver_libraries), "CUDA_LOG": str(log), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    assert "cuInit" not in (log.read_text() if log.exists() else "")
