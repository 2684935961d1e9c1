"""What `tfperf doctor` finds of the installed frameworks, of CUDA's libraries, and of their code for a GPU."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest

from pytest_tfperf.core.topology import Gpu
from pytest_tfperf.features.doctor import framework_fitness
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level
from pytest_tfperf.features.doctor.framework_fitness import (
    Build,
    Driver,
    Framework,
    Libraries,
    code_findings,
    cuda_libraries,
    framework_findings,
    gpus_seen_by,
    installed,
    parsed_build,
)
from tests.helpers.stand_in_libraries import BuildLibrary

TF_2_21 = Build((12, 5), ((6, 0), (7, 0), (8, 0), (8, 9)), ((9, 0),))  # its build_info.py
TF_NEXT = Build((12, 8), ((8, 0), (9, 0)), ((12, 0),))
CPU_BUILD = "build_info = collections.OrderedDict([('cpu_compiler', 'clang'), ('is_cuda_build', False)])"


def tensorflow(build: Build | None, libraries: Libraries | None = None) -> Framework:
    install = "pip install 'tensorflow[and-cuda]'"
    return Framework("TensorFlow", build.cuda if build else None, install, "", build, libraries)


def of_code(
    capability: tuple[int, int],
    cuda: tuple[int, int] = (12, 8),
    build: Build = TF_2_21,
    libraries: Libraries | None = None,
    **environ: str,
) -> Finding:
    gpu = Gpu(index=0, uuid="GPU-0", name="a GPU", compute_capability=capability)
    with patch.dict("os.environ", environ or {"HOME": "/none"}, clear=True):
        (finding,) = code_findings(gpu, tensorflow(build, libraries), cuda)
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
    assert of_code((9, 0), CUDA_CACHE_PATH=str(tmp_path)).level is Level.OK


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


def found_of(
    *frameworks: Framework,
    cuda: tuple[int, int] | None = (12, 8),
    machine: str = "x86_64",
    gpus: int = 1,
    sees: int | str = 1,
) -> list[Finding]:
    with (
        patch.object(framework_fitness, "gpus_seen_by", return_value=sees),
        patch("platform.machine", return_value=machine),
    ):
        return list(framework_findings(frameworks, Driver("470.256.02", cuda, (), gpus)))


def of_build(build: Build | None, cuda: tuple[int, int] | None = (12, 8), machine: str = "x86_64") -> Finding:
    (finding,) = found_of(tensorflow(build), cuda=cuda, machine=machine)
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


PYTORCH = Framework("PyTorch", (13, 0), "install a build", "import torch; print(1)")


def test_a_pytorch_for_cuda_13_beside_an_older_driver_is_unfit() -> None:
    (finding,) = found_of(PYTORCH, cuda=(12, 8))
    assert finding == Finding(
        Check.FRAMEWORK,
        Level.UNFIT,
        "the installed PyTorch was built for CUDA 13.0, and the driver 470.256.02 knows CUDA 12.8 at most",
        "install a newer NVIDIA driver, R580 or newer, or a PyTorch for CUDA 12",
    )


@pytest.mark.parametrize(
    ("sees", "level", "fact"),
    [
        (2, Level.OK, "sees 2 of 2 GPUs"),
        (1, Level.WARNING, "sees 1 of 2 GPUs"),
        ("CUDA initialization: unknown error", Level.UNFIT, "sees no GPU: CUDA initialization: unknown error"),
    ],
)
def test_a_framework_for_gpus_says_itself_how_many_it_sees(sees: int | str, level: Level, fact: str) -> None:
    (finding,) = found_of(PYTORCH, cuda=(13, 0), gpus=2, sees=sees)
    assert (finding.level, finding.fact) == (level, f"the installed PyTorch was built for CUDA 13.0, and {fact}")


def test_a_tensorflow_for_cpus_is_in_order_beside_a_pytorch_for_gpus() -> None:
    """TensorBoard needs it."""
    on_cpus, on_gpus = found_of(tensorflow(None), PYTORCH, cuda=(13, 0))
    assert (on_cpus.level, on_gpus.level) == (Level.OK, Level.OK)
    assert on_cpus.fact == "the installed TensorFlow is built without CUDA, for CPUs; for GPUs there is PyTorch"


def test_a_tensorflow_without_cuda_libraries_is_a_warning_beside_a_pytorch_for_gpus() -> None:
    """As `pip install tensorflow` installs it; its missing code for a new GPU then does not matter."""
    without = tensorflow(TF_2_21, Libraries(("libcudart.so.12",)))
    levels = [(finding.subject, finding.level) for finding in found_of(without, PYTORCH, cuda=(13, 0))]
    assert levels == [
        (Check.FRAMEWORK, Level.OK),
        (Check.CUDA_LIBRARIES, Level.WARNING),
        (Check.FRAMEWORK, Level.OK),
    ]
    gpu = Gpu(index=0, uuid="GPU-0", name="an old GPU", compute_capability=(3, 7))
    assert list(code_findings(gpu, without, (12, 0))) == []


def test_frameworks_for_cpus_alone_are_unfit() -> None:
    findings = found_of(tensorflow(None), Framework("JAX", None, "pip install 'jax[cuda12]'"))
    assert [(finding.level, finding.fix) for finding in findings] == [
        (Level.UNFIT, "pip install 'tensorflow[and-cuda]'"),
        (Level.UNFIT, "pip install 'jax[cuda12]'"),
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('log'); print(8)", 8),
        (
            "import warnings; warnings.warn('CUDA initialization: The NVIDIA driver is too old'); print(0)",
            "CUDA initialization: The NVIDIA driver is too old",
        ),
        ("print(0)", "it gives no reason"),
        (
            "raise RuntimeError('no platforms that are instances of gpu')",
            "RuntimeError: no platforms that are instances",
        ),
        ("import os; os._exit(3)", "it ended with status 3"),
    ],
    ids=["sees", "warns", "is silent", "raises", "dies"],
)
def test_the_answer_of_a_framework_is_a_number_or_the_reason_that_it_gives(code: str, said: int | str) -> None:
    answer = gpus_seen_by(Framework("JAX", (12, 0), "", code))
    assert answer == said if isinstance(said, int) else str(answer).startswith(said)


def test_a_framework_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework_fitness, "_SECONDS_OF_IMPORT", 0.1)
    hangs = Framework("JAX", (12, 0), "", "import time; time.sleep(60)")
    assert gpus_seen_by(hangs) == "it did not answer within 0.1 s"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which this Python finds packages, and no others."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in ("tensorflow", "torch", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # what another test imported is found without a path
    return tmp_path


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"torch/version.py": "__version__ = '2.11.0'\ncuda: Optional[str] = '13.0'\n"}, [("PyTorch", (13, 0))]),
        ({"torch/version.py": "__version__ = '2.11.0+cpu'\ncuda: Optional[str] = None\n"}, [("PyTorch", None)]),
        ({"jax/__init__.py": "", "jax_cuda13_plugin/__init__.py": ""}, [("JAX", (13, 0))]),
        ({"jax/__init__.py": ""}, [("JAX", None)]),
        ({}, []),
    ],
    ids=["PyTorch", "PyTorch for CPUs", "JAX", "JAX for CPUs", "none"],
)
def test_pytorch_and_jax_are_read_without_an_import(
    packages: Path, files: dict[str, str], expected: list[tuple[str, tuple[int, int] | None]]
) -> None:
    for name, text in files.items():
        (packages / name).parent.mkdir(exist_ok=True)
        (packages / name).with_name("__init__.py").write_text("raise ImportError")
        (packages / name).write_text(text or "raise ImportError")
    assert [(framework.name, framework.cuda) for framework in installed()] == expected


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
    _, finding = found_of(tensorflow(TF_2_21, libraries))
    assert finding == Finding(Check.CUDA_LIBRARIES, level, fact, fix)


def test_the_installed_tensorflow_says_what_it_is_made_of_without_an_import() -> None:
    (found,) = (framework for framework in installed() if framework.name == "TensorFlow")
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
    code = "from pytest_tfperf.features.doctor.framework_fitness import installed; print(installed())"
    log = tmp_path / "cuda.log"
    environment = {"LD_LIBRARY_PATH": str(driver_libraries), "CUDA_LOG": str(log), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    assert "cuInit" not in (log.read_text() if log.exists() else "")
