"""Machines with GPUs as the stand-in for libnvidia-ml knows them: facts from data sheets and nvidia-smi's output.

`answers` writes a machine in the format of libraries/nvml.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pynvml

NOT_SUPPORTED, GPU_IS_LOST = pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_GPU_IS_LOST
SWITCH = pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
GB = 10**9
GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class MigDevice:
    uuid: str
    name: str
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class Card:
    """A GPU; None is a fact that its driver does not report.

    Args:
        nvlinks: the kind and PCI address of each link's far end.
        mig: None where the GPU has no MIG mode, False where it is off.
        processes: pid -> bytes of its memory.
        process_percent: pid -> per cent of the GPU's time.
        errors: function -> the error that it returns for this GPU.
    """

    name: str
    memory_bytes: int
    compute_capability: str
    cores: int | None
    sm_clock_mhz: int
    memory_bus_bits: int | None
    memory_clock_mhz: int | None
    power_limit_watts: int = 300
    pci: str = "0:1b:0"
    pcie_generation: int = 4
    nvlinks: tuple[tuple[int, str], ...] = ()
    mig: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    ecc_errors: int | None = 0
    compute_mode: int = pynvml.NVML_COMPUTEMODE_DEFAULT
    utilization_percent: int = 0
    processes: Mapping[int, int] = field(default_factory=dict)
    process_percent: Mapping[int, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A machine.

    Args:
        cuda: the newest that its driver supports, "12.8".
        common_ancestor: NVML's level of the path between any two GPUs: 30 is one host bridge, 50 crosses sockets.
        errors: function -> the error that it returns for all GPUs.
    """

    driver: str
    cuda: str
    cards: tuple[Card, ...]
    common_ancestor: int = pynvml.NVML_TOPOLOGY_SYSTEM
    errors: Mapping[str, int] = field(default_factory=dict)


def answers(scenario: Scenario) -> dict[str, str]:
    """The stand-in's answers, by key."""
    major, _, minor = scenario.cuda.partition(".")
    facts: dict[str, object] = {
        "driver": scenario.driver,
        "cuda": int(major) * 1000 + int(minor) * 10,
        "count": len(scenario.cards),
        "common_ancestor": scenario.common_ancestor,
    }
    facts |= {f"fail.{function}": error for function, error in scenario.errors.items()}
    for index, card in enumerate(scenario.cards):
        facts |= {f"gpu.{index}.{name}": value for name, value in _of_card(index, card)}
        for number, device in enumerate(card.mig_devices):
            own = {"uuid": device.uuid, "name": device.name, "memory": device.memory_bytes}
            facts |= {f"mig.{index}.{number}.{name}": value for name, value in own.items()}
    return {key: str(value) for key, value in facts.items() if value is not None}


def _of_card(index: int, card: Card) -> Iterator[tuple[str, object]]:
    yield "uuid", f"GPU-{index:08x}-1111-2222-3333-444444444444"
    yield "name", card.name
    yield "memory", card.memory_bytes
    yield "memory_used", GIB // 2
    yield "compute_capability", card.compute_capability
    yield "cores", card.cores
    yield "memory_bus", card.memory_bus_bits
    yield "pci", card.pci
    yield "pcie_generation", card.pcie_generation
    yield "pcie_width", 16
    yield "mig", None if card.mig is None else int(card.mig)
    yield "most_mig_devices", 7 if card.mig else None
    yield "max_clock.1", card.sm_clock_mhz
    yield "max_clock.2", card.memory_clock_mhz
    yield "clock.1", card.sm_clock_mhz - 100
    yield "clock.2", card.memory_clock_mhz
    yield "temperature.0", 40
    yield "power", 70_000
    yield "power_limit", card.power_limit_watts * 1000
    yield "default_power_limit", card.power_limit_watts * 1000
    yield "compute_mode", card.compute_mode
    yield "persistence", 1
    yield "utilization", card.utilization_percent
    yield "clock_reasons", "0x1"  # idle
    yield "ecc_errors", card.ecc_errors
    yield "processes", ",".join(f"{pid}:{memory}" for pid, memory in card.processes.items()) or None
    yield "process_utilization", ",".join(f"{pid}:{used}" for pid, used in card.process_percent.items()) or None
    yield from ((f"nvlink.{link}", f"{kind} {address}") for link, (kind, address) in enumerate(card.nvlinks))
    yield from ((f"fail.{function}", error) for function, error in card.errors.items())


H100 = Card(
    name="NVIDIA H100 80GB HBM3",
    memory_bytes=85_520_809_984,
    compute_capability="9.0",
    cores=16_896,
    sm_clock_mhz=1980,
    memory_bus_bits=5120,
    memory_clock_mhz=2619,
    power_limit_watts=700,
    mig=False,
)
A100 = Card(
    name="NVIDIA A100-SXM4-40GB",
    memory_bytes=40 * GIB,
    compute_capability="8.0",
    cores=6912,
    sm_clock_mhz=1410,
    memory_bus_bits=5120,
    memory_clock_mhz=1215,
    power_limit_watts=400,
    mig=False,
)
RTX_4090 = Card(
    name="NVIDIA GeForce RTX 4090",
    memory_bytes=25_757_220_864,
    compute_capability="8.9",
    cores=16_384,
    sm_clock_mhz=3120,
    memory_bus_bits=384,
    memory_clock_mhz=10_501,
    power_limit_watts=450,
    ecc_errors=None,
)
T4 = Card(
    name="Tesla T4",
    memory_bytes=15 * GIB,
    compute_capability="7.5",
    cores=2560,
    sm_clock_mhz=1590,
    memory_bus_bits=256,
    memory_clock_mhz=5001,
    power_limit_watts=70,
    pcie_generation=3,
)
P100 = Card(
    name="Tesla P100-SXM2-16GB",
    memory_bytes=16 * GIB,
    compute_capability="6.0",
    cores=3584,
    sm_clock_mhz=1480,
    memory_bus_bits=4096,
    memory_clock_mhz=715,
    pcie_generation=3,
)
K80 = Card(
    name="Tesla K80",
    memory_bytes=12 * GB,
    compute_capability="3.7",
    cores=None,  # these two from R510 on
    memory_bus_bits=None,
    sm_clock_mhz=875,
    memory_clock_mhz=2505,
    power_limit_watts=149,
    pcie_generation=3,
)
VGPU = replace(
    T4, name="GRID T4-16Q", memory_bytes=16 * GIB, errors=dict.fromkeys(
        (
            "nvmlDeviceGetTemperature",
            "nvmlDeviceGetPowerUsage",
            "nvmlDeviceGetEnforcedPowerLimit",
            "nvmlDeviceGetPowerManagementDefaultLimit",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetComputeRunningProcesses_v2",
            "nvmlDeviceGetProcessUtilization",
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            "nvmlDeviceGetMaxPcieLinkGeneration",
            "nvmlDeviceGetMaxPcieLinkWidth",
            "nvmlDeviceGetPersistenceMode",
            "nvmlDeviceGetTotalEccErrors",
        ),
        NOT_SUPPORTED,
    ),
)  # fmt: skip
GB10 = Card(
    name="NVIDIA GB10",
    memory_bytes=131 * GB,
    compute_capability="12.1",
    cores=6144,
    sm_clock_mhz=2418,
    memory_bus_bits=None,
    memory_clock_mhz=None,
    errors={"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED},  # its memory is the host's
)
B200 = replace(
    H100,
    name="NVIDIA B200",
    memory_bytes=192 * GB,
    compute_capability="10.0",
    cores=18_944,
    sm_clock_mhz=1965,
    memory_bus_bits=8192,
    memory_clock_mhz=3996,
)
RTX_5090 = replace(
    RTX_4090,
    name="NVIDIA GeForce RTX 5090",
    memory_bytes=34 * GB,
    compute_capability="12.0",
    cores=21_760,
    sm_clock_mhz=3090,
    memory_bus_bits=512,
    memory_clock_mhz=14_001,
)

_DGX_A100 = ("7", "f", "47", "4e", "87", "90", "b7", "bd")  # PCI buses
_TO_SWITCHES = tuple((SWITCH, f"0:{0xC4 + link // 2:x}:0") for link in range(12))
_BESIDE = replace(H100, pci="0:2b:0")


def _halves(gpu: int) -> tuple[MigDevice, ...]:
    return tuple(
        MigDevice(
            uuid=f"MIG-{gpu:08x}-{number}111-5222-8333-444444444444",
            name="NVIDIA A100-SXM4-40GB MIG 3g.20gb",
            memory_bytes=20_937_965_568,
        )
        for number in range(2)
    )


R470 = Scenario(driver="470.256.02", cuda="11.4", cards=())
R535 = Scenario(driver="535.183.01", cuda="12.2", cards=())
R550 = Scenario(driver="550.90.07", cuda="12.4", cards=())
R570 = Scenario(driver="570.86.15", cuda="12.8", cards=())

FOREIGN_PID = 1
"""The process that computes on the GPU of "h100_foreign": no child of ours, and always there."""

SCENARIOS: Mapping[str, Scenario] = {
    "h100_550": replace(R550, cards=(H100,)),
    "h100_570": replace(R570, cards=(H100,)),
    "t4_470": replace(R470, cards=(T4,)),
    "k80_470": replace(R470, cards=(K80, replace(K80, pci="0:1c:0"))),
    "p100_535": replace(R535, cards=(P100,)),
    "dgx_a100": replace(R550, cards=tuple(replace(A100, pci=f"0:{bus}:0", nvlinks=_TO_SWITCHES) for bus in _DGX_A100)),
    "dgx_a100_links_down": replace(
        R550,
        cards=tuple(
            replace(A100, pci=f"0:{bus}:0", nvlinks=_TO_SWITCHES[: {"4e": 10, "90": 0}.get(bus, 12)])
            for bus in _DGX_A100
        ),
    ),
    "dgx_a100_mig": replace(
        R550,
        cards=tuple(
            replace(A100, pci=f"0:{bus}:0", mig=True, mig_devices=_halves(gpu)) for gpu, bus in enumerate(_DGX_A100)
        ),
    ),
    "4x_rtx_4090": replace(
        R570,
        cards=tuple(replace(RTX_4090, pci=f"0:{bus}:0") for bus in ("1", "21", "41", "61")),
        common_ancestor=pynvml.NVML_TOPOLOGY_HOSTBRIDGE,
    ),
    "vgpu": replace(R550, cards=(VGPU,)),
    "h100_lost": replace(R570, cards=(H100, replace(_BESIDE, errors={"nvmlDeviceGetHandleByIndex_v2": GPU_IS_LOST}))),
    "h100_lost_late": replace(R570, cards=(H100, replace(_BESIDE, errors={"nvmlDeviceGetUUID": GPU_IS_LOST}))),
    "h100_exclusive": replace(R570, cards=(replace(H100, compute_mode=pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS),)),
    "h100_foreign": replace(
        R570,
        cards=(
            replace(
                H100,
                utilization_percent=100,
                processes={FOREIGN_PID: 30 * GB},
                process_percent={FOREIGN_PID: 97},
            ),
        ),
    ),
    "unknown_error": replace(R570, cards=(H100,), errors={"nvmlInitWithFlags": pynvml.NVML_ERROR_UNKNOWN}),
    "gb10": Scenario(driver="580.95.05", cuda="13.0", cards=(GB10,)),
    "b200_570": replace(R570, cards=(B200,)),
    "rtx_5090_570": replace(R570, cards=(RTX_5090,)),
}
"""By name. H100 on R570 is a machine in order."""
