"""What one GPU tells in a few minutes, and no test of the project; each probe prints one line, or FAILED.

    python tools/gpu_probes.py facts         # versions, libraries, the namespace of process ids
    python tools/gpu_probes.py record FILE   # all that NVML answers, as the stand-in of the tests reads it
    python tools/gpu_probes.py cold          # the rate of a loop from a cold GPU on
    python tools/gpu_probes.py own           # how often NVML renews its figures, and how long use shows after its end
    python tools/gpu_probes.py foreign       # what NVML lists of a process that uses the GPU
    python tools/gpu_probes.py held          # how long a killed process's memory stays counted
    python tools/gpu_probes.py running X     # how many gpu_loop.py with this argument run
    python tools/gpu_probes.py kernels       # TensorFlow's kernels, the first and the second time
    python tools/gpu_probes.py sync          # whether a window's time contains all of its work, and its closing costs
    python tools/gpu_probes.py alloc         # whether autotuning's scratch hides the training's own peak of memory
    python tools/gpu_probes.py copies        # how much of the copies to the GPU the steps hide

The last four need TensorFlow, and run on a CPU, too. A file of `record` in FAKE_NVML makes libraries/nvml.c of the
tests play the machine.
"""

from __future__ import annotations

import itertools
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

MIB: Final = 2**20
SCALE: Final = float(os.environ.get("SCALE", "1"))
"""A factor for the times of `cold` and `own`: tests have none to spend."""


# The answers of NVML


def ask(function: str, *arguments: Any) -> Any:
    """An answer of pynvml, or the NVMLError that it raised."""
    import pynvml

    try:
        return getattr(pynvml, function)(*arguments)
    except pynvml.NVMLError as error:
        return error


# Key of the stand-in, pynvml's function without "nvmlDevice", its further arguments, and the library's own name of the
# function where it has another.
_FACTS: Final[tuple[tuple[str, str, tuple[int, ...], str], ...]] = (
    ("uuid", "GetUUID", (), ""),
    ("name", "GetName", (), ""),
    ("memory", "GetMemoryInfo", (), ""),
    ("compute_capability", "GetCudaComputeCapability", (), ""),
    ("cores", "GetNumGpuCores", (), ""),
    ("memory_bus", "GetMemoryBusWidth", (), ""),
    ("pci", "GetPciInfo", (), "GetPciInfo_v3"),
    ("pcie_generation", "GetMaxPcieLinkGeneration", (), ""),
    ("pcie_width", "GetMaxPcieLinkWidth", (), ""),
    ("mig", "GetMigMode", (), ""),
    ("most_mig_devices", "GetMaxMigDeviceCount", (), ""),
    *((f"max_clock.{clock}", "GetMaxClockInfo", (clock,), "") for clock in (1, 2)),
    *((f"clock.{clock}", "GetClockInfo", (clock,), "") for clock in (1, 2)),
    *((f"application_clock.{clock}", "GetApplicationsClock", (clock,), "") for clock in (1, 2)),
    *((f"default_application_clock.{clock}", "GetDefaultApplicationsClock", (clock,), "") for clock in (1, 2)),
    ("temperature.0", "GetTemperature", (0,), ""),
    ("power", "GetPowerUsage", (), ""),
    ("power_limit", "GetEnforcedPowerLimit", (), ""),
    ("default_power_limit", "GetPowerManagementDefaultLimit", (), ""),
    ("compute_mode", "GetComputeMode", (), ""),
    ("persistence", "GetPersistenceMode", (), ""),
    ("utilization", "GetUtilizationRates", (), ""),
    ("clock_reasons", "GetCurrentClocksEventReasons", (), ""),
    ("clock_reasons", "GetCurrentClocksThrottleReasons", (), ""),
    ("ecc_errors", "GetTotalEccErrors", (1, 0), ""),
    ("processes", "GetComputeRunningProcesses", (), "GetComputeRunningProcesses_v3"),
    ("processes", "GetComputeRunningProcesses_v2", (), ""),
    ("mps_clients", "GetMPSComputeRunningProcesses", (), "GetMPSComputeRunningProcesses_v3"),
    ("process_utilization", "GetProcessUtilization", (0,), ""),
)


def recorded() -> dict[str, str]:
    """All answers about this machine, in the format of tests/helpers/libraries/nvml.c."""
    import pynvml

    pynvml.nvmlInit()
    facts: dict[str, str] = {
        "driver": str(ask("nvmlSystemGetDriverVersion")),
        "cuda": str(ask("nvmlSystemGetCudaDriverVersion")),
        "count": str(pynvml.nvmlDeviceGetCount()),
    }
    handles = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = ask("nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, pynvml.NVMLError):
            facts[f"gpu.{index}.fail.nvmlDeviceGetHandleByIndex_v2"] = str(handle.value)
            continue
        handles.append(handle)
        facts |= {f"gpu.{index}.{key}": text for key, text in _of_device(handle)}
        facts |= {f"gpu.{index}.{key}": text for key, text in _nvlinks(handle)}
        for number in range(int(facts.get(f"gpu.{index}.most_mig_devices", 0))):
            device = ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            if not isinstance(device, pynvml.NVMLError):
                facts |= {f"mig.{index}.{number}.{key}": text for key, text in _of_device(device)}
    if len(handles) > 1:
        facts["common_ancestor"] = str(ask("nvmlDeviceGetTopologyCommonAncestor", handles[0], handles[1]))
    return facts


def _of_device(handle: Any) -> Iterator[tuple[str, str]]:
    import pynvml

    silent = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NOT_FOUND)  # the stand-in says so without a line
    for key, name, arguments, symbol in _FACTS:
        answer = ask(f"nvmlDevice{name}", handle, *arguments)
        if isinstance(answer, pynvml.NVMLError):
            if answer.value not in silent:
                yield f"fail.nvmlDevice{symbol or name}", str(answer.value)
        elif key == "memory":
            yield key, str(answer.total)
            yield "memory_used", str(answer.used)
        elif text := _text(key, answer):
            yield key, text


def _text(key: str, answer: Any) -> str:
    match key:
        case "compute_capability":
            return ".".join(map(str, answer))
        case "pci":
            return f"{answer.domain:x}:{answer.bus:x}:{answer.device:x}"
        case "mig":
            return str(answer[0])
        case "utilization":
            return str(answer.gpu)
        case "processes" | "mps_clients":
            return ",".join(f"{process.pid}:{process.usedGpuMemory or 0}" for process in answer)
        case "process_utilization":
            return ",".join(f"{sample.pid}:{sample.smUtil}" for sample in answer)
        case _:
            return str(answer)


def _nvlinks(handle: Any) -> Iterator[tuple[str, str]]:
    import pynvml

    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        names = ("State", "RemoteDeviceType", "RemotePciInfo")
        state, kind, pci = (ask(f"nvmlDeviceGetNvLink{name}", handle, link) for name in names)
        if not any(isinstance(answer, pynvml.NVMLError) for answer in (state, kind, pci)) and state:
            yield f"nvlink.{link}", f"{kind} {_text('pci', pci)}"


def record(file: str) -> str:
    """Write all answers of NVML to a file."""
    facts = recorded()
    Path(file).write_text("".join(f"{key} {value}\n" for key, value in facts.items()), encoding="utf-8")
    refused = sorted({f"{key.partition('.fail.')[2]} ({error})" for key, error in facts.items() if ".fail." in key})
    namespace = Path("/proc/self/ns/pid").readlink()  # pid:[4026531836] is the host's, whose pids NVML gives
    return f"{facts['count']} GPUs, {namespace}, refused: {', '.join(refused) or 'nothing'}"


# A process that uses the GPU


@contextmanager
def busy(seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A process that uses the GPU from now on; a process that died must never look like a quiet GPU."""
    command = [sys.executable, str(Path(__file__).with_name("gpu_loop.py")), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None, "it is a pipe"
        first = process.stdout.readline()
        if first.strip() != "busy cuda" and not (first.strip() == "busy sleep" and os.environ.get("STAND_IN")):
            if first.startswith("busy"):
                process.kill()
            sys.exit(f"FAILED: the process that should use the GPU said: {first}{process.stdout.read()}")
        try:
            yield process
            if process.poll() not in (None, 0, -signal.SIGKILL):
                sys.exit(f"FAILED: the process that used the GPU ended with status {process.returncode}")
        finally:
            process.kill()


def first_gpu() -> Any:
    """NVML's handle of GPU 0."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def state(gpu: Any) -> tuple[int | None, Any, Any, Any]:
    """Per cent in use, MHz, milliwatts and degrees Celsius now."""
    rates, clock = ask("nvmlDeviceGetUtilizationRates", gpu), ask("nvmlDeviceGetClockInfo", gpu, 1)
    power, celsius = ask("nvmlDeviceGetPowerUsage", gpu), ask("nvmlDeviceGetTemperature", gpu, 0)
    return getattr(rates, "gpu", None), clock, power, celsius


def cold() -> str:
    """Watch the rate of a fixed loop from a cold GPU on."""
    gpu = first_gpu()
    time.sleep(20 * SCALE)
    seen: list[tuple[float, Any]] = []
    with busy(50 * SCALE) as process:
        assert process.stdout is not None, "it is a pipe"
        began = time.monotonic()
        for line in process.stdout:
            if line.startswith("throughput: "):
                seen.append((float(line.split()[1]), state(gpu)[3]))
                print(f"{time.monotonic() - began:6.2f} s  {seen[-1][0]:.2f} images/s  {state(gpu)}")
    if len(seen) < 8:
        sys.exit(f"FAILED: the loop printed {len(seen)} rates")
    first, last = (statistics.median(rate for rate, _ in some) for some in (seen[1:4], seen[-4:]))
    return f"{first:.1f} images/s at {seen[1][1]} C, {last:.1f} at {seen[-1][1]} C, {last / first - 1:+.1%}"


def own() -> str:
    """Watch NVML's figures while a process uses the GPU, and for 4 s after its end."""
    gpu = first_gpu()
    seen: list[tuple[float, tuple[int | None, Any, Any, Any]]] = []
    ended = None
    with busy(5 * SCALE) as process:
        while ended is None or time.monotonic() < ended + 4:
            seen.append((time.monotonic(), state(gpu)))
            if ended is None and process.poll() is not None:
                ended = time.monotonic()
            time.sleep(0.02)
    if not any((used or 0) > 50 for at, (used, *_) in seen if at < ended):
        sys.exit("FAILED: NVML never showed the use")

    def renewed(column: int) -> str:
        times = [now[0] for before, now in itertools.pairwise(seen) if now[1][column] != before[1][column]]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        return f"{statistics.median(gaps):.2f}" if gaps else "not known"

    shown = max((at - ended for at, (used, *_) in seen if at > ended and (used or 0) > 5), default=0.0)
    return f"{shown:.2f} s after its end its use still shows; seconds from renewal to renewal: {renewed(0)}"


def foreign() -> str:
    """Ask NVML which processes use the GPU while one does."""
    gpu = first_gpu()
    with busy(60) as process:
        time.sleep(3)
        listed = ask("nvmlDeviceGetComputeRunningProcesses", gpu)
        use = ask("nvmlDeviceGetProcessUtilization", gpu, int((time.time() - 1) * 1e6))
        named = [[(entry.pid, getattr(entry, "smUtil", "")) for entry in some] if isinstance(some, list) else some
                 for some in (listed, use)]  # fmt: skip
        used = state(gpu)[0]
        process.kill()
    return f"{process.pid} is its pid, {named[0]} are listed, {named[1]} use it; {used} % in use"


def held() -> str:
    """Kill a process that holds memory of the GPU, and wait until NVML counts it no more."""
    gpu = first_gpu()

    def used() -> int:
        return int(getattr(ask("nvmlDeviceGetMemoryInfo", gpu), "used", 0)) // MIB

    before = used()
    with busy(60) as process:
        time.sleep(2)
        during, killed = used(), time.monotonic()
        process.kill()
        process.wait()
        gone, still = time.monotonic() - killed, used() - before
        while used() > before + 64 and time.monotonic() < killed + 15:
            time.sleep(0.01)
        free = time.monotonic() - killed
    if during < before + 100:
        sys.exit(f"FAILED: the process took no memory: {before} MiB before it, {during} MiB with it")
    return (
        f"{before} to {during} MiB; gone {gone:.2f} s after SIGKILL with {still} MiB counted, free after {free:.2f} s"
    )


# What is there


_LIBRARIES: Final = (
    *("libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2"),
    *("ptxas", "libdevice.10.bc", "zstd", "gcc"),
)


def facts() -> str:
    """Look for what the other calls need."""
    versions = []
    for package in ("torch", "jax", "tensorflow", "scipy", "psutil", "nvidia-ml-py", "pytest", "jinja2"):
        with suppress(metadata.PackageNotFoundError):
            versions.append(f"{package} {metadata.version(package)}")
    found = {path.name for folder in ("/opt", "/usr") for path in Path(folder).rglob("*") if path.name in _LIBRARIES}
    free = shutil.disk_usage("/tmp").free // 2**30
    namespace = Path("/proc/self/ns/pid").readlink()
    software = f"Python {platform.python_version()}, {', '.join(versions)}"
    missing = ", ".join(sorted(set(_LIBRARIES) - found)) or "none"
    return f"{software}; {namespace}, {free} GiB free in /tmp, Linux {platform.release()}; missing: {missing}"


def running(argument: str) -> str:
    """Count the processes of gpu_loop.py with this argument."""
    import psutil

    lines = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    return str(sum(argument in line and any("gpu_loop.py" in word for word in line) for line in lines))


# TensorFlow


def kernels() -> str:
    """Time a convolution in each precision, twice: the driver compiles kernels the first time."""
    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    seconds = []
    for kind in ("float32", "bfloat16", "float16") * 2:
        began = time.perf_counter()
        images, weights = (tf.cast(tf.random.normal(of), kind) for of in ((32, 56, 56, 64), (3, 3, 64, 64)))
        convolved = tf.nn.conv2d(images, weights, 1, "SAME")
        mean = float(tf.reduce_mean(tf.abs(tf.cast(convolved, "float32"))))
        seconds.append(time.perf_counter() - began)
        print(f"{kind}: mean {mean:.2f}, wanted about 19")
    each = ", ".join(f"{first:.1f} s then {then:.2f} s" for first, then in zip(seconds[:3], seconds[3:], strict=True))
    return f"float16 last on {convolved.device}; float32, bfloat16, float16: {each}"


# A loop of training in this process


def loop_of(pipeline: str = "device") -> tuple[str, Any]:
    """The device's name, and the loop of a small training: ResNet-50 on a GPU, ResNet-20 on a CPU."""
    import tensorflow as tf

    from pytest_tfperf.core.workload import Workload
    from pytest_tfperf.training.devices import load_cusolver
    from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline, loop_for
    from pytest_tfperf.training.strategies import strategy_for

    load_cusolver(Path(tf.__file__).parents[1])
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    name, model, batch = ("GPU:0", "resnet50", 64) if gpus else ("CPU:0", "resnet20", 8)
    workload = Workload(model=model, batch_size=batch, input_pipeline=pipeline)
    strategy = strategy_for(workload, [name])
    loaded = load_model(workload, strategy, 1)
    inputs = load_pipeline(workload, input_spec(workload, loaded, strategy, 1, "", None))
    loop = loop_for(workload, strategy, loaded, inputs, None)
    loop.run(1)
    loop.run(10)
    return name, loop


def timed(call: Callable[..., Any], *arguments: Any) -> float:
    """The seconds of a call."""
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began


def sync() -> str:
    """Compare windows of many and of few steps, and what is left to wait for after each."""
    import tensorflow as tf

    from pytest_tfperf.training.loop import sync_devices

    name, loop = loop_of()

    def left_after(run: Callable[[], Any]) -> float:
        run()
        return timed(sync_devices, [name])

    left = max(left_after(lambda: loop.run(5)) for _ in range(5))
    hidden = max(left_after(lambda: float(loop.window(tf.constant(5)))) for _ in range(5))
    best = {steps: min(timed(loop.run, steps) for _ in range(5)) for steps in (1, 2, 5, 10, 20, 50)}
    step = (best[50] - best[10]) / 40
    closing = best[1] - step
    each = " ".join(f"{seconds / steps * 1e3:.2f}" for steps, seconds in best.items())
    return (
        f"after a window {left * 1e3:.2f} ms of work are left (wanted: below 0.2), after its loss alone "
        f"{hidden * 1e3:.2f} ms; a step takes {step * 1e3:.2f} ms, closing a window {closing * 1e3:.2f} ms, which is "
        f"{closing / (5 * step):.1%} of a window of 5 steps; ms a step for 1 to 50 steps: {each}"
    )


def alloc() -> str:
    """Compare the peak of memory with the first steps and without them."""
    import tensorflow as tf

    name, loop = loop_of()
    if name == "CPU:0":
        sys.exit("FAILED: needs a GPU")

    def peak() -> int:
        return int(tf.config.experimental.get_memory_info(name)["peak"]) // MIB

    first = peak()
    tf.config.experimental.reset_memory_stats(name)
    loop.run(10)
    return f"peak with autotuning {first} MiB, of later steps {peak()} MiB; growth between the two is not seen"


def copies() -> str:
    """Compare steps on data of the device with steps on data of the host, and a copy alone."""
    import tensorflow as tf

    seconds = {}
    for pipeline in ("device", "host"):
        name, loop = loop_of(pipeline)
        seconds[pipeline] = min(timed(loop.run, 20) for _ in range(3)) / 20
    with tf.device("CPU:0"):
        batch = tf.random.normal((64, 224, 224, 3) if name != "CPU:0" else (8, 32, 32, 3))

    def copy() -> None:
        with tf.device(name):
            tf.identity(batch)[0, 0, 0, 0].numpy()

    copy()
    alone = min(timed(copy) for _ in range(10))
    more = seconds["host"] - seconds["device"]
    return (
        f"a step takes {seconds['device'] * 1e3:.2f} ms, {more * 1e3:.2f} ms more with copies; a copy alone takes "
        f"{alone * 1e3:.2f} ms, and what the steps hide of it costs nothing"
    )


PROBES: Final[dict[str, Callable[..., str]]] = {
    probe.__name__: probe for probe in (facts, record, cold, own, foreign, held, running, kernels, sync, alloc, copies)
}


def main(arguments: Sequence[str]) -> None:
    """Print one probe's line."""
    if not arguments or arguments[0] not in PROBES:
        sys.exit(f"give one of {', '.join(PROBES)}\n\n{__doc__}")
    line = PROBES[arguments[0]](*arguments[1:])
    print(line if arguments[0] == "running" else f"{arguments[0]}: {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
