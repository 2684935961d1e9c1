"""A libnvidia-ml.so.1 compiled for a machine that we describe, so that the real nvidia-ml-py runs on it.

It answers as NVML's header says; it was never compared with a real driver on such a machine.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from patience import SESSION_SECONDS

from pytest_tfperf.core.topology import Gpu, LinkKind, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 3, 4, 6
DRIVER_NOT_LOADED, GPU_IS_LOST, VERSION_MISMATCH, UNKNOWN = 9, 15, 18, 999
GPU, SWITCH, UNKNOWN_DEVICE = 0, 2, 255
NO_ADDRESS = "ffff:ff:1f.0"
_LEVELS = {LinkKind.PIX: 10, LinkKind.PXB: 20, LinkKind.PHB: 30, LinkKind.NODE: 40, LinkKind.SYS: 50}


@dataclass(frozen=True)
class Slice:
    """A MIG device: what NVML tells of it."""

    uuid: str
    name: str
    memory_bytes: int
    multiprocessors: int
    gpu_slices: int
    compute_slices: int


@dataclass(frozen=True)
class NvLink:
    """Where a GPU's NVLink ends: the kind and PCI address that NVML tells, and the device id there."""

    kind: int
    address: str
    device_id: int = 0x20B010DE


@dataclass(frozen=True)
class Now:
    """What a GPU's dials show, and who computes on it: pid to the per cent of the GPU that it uses.

    Stale: these per cent are of a time before the one that was asked about.
    """

    celsius: int = 40
    mhz: int = 1410
    milliwatts: int = 250_500
    percent: int = 97
    memory_used_bytes: int = 2**30
    reasons: int = 0
    processes: Mapping[int, int] = field(default_factory=dict)
    stale: bool = False


@dataclass(frozen=True)
class StandIn:
    """A machine: a snapshot, and what a snapshot doesn't say.

    `nvlinks` replaces those that the snapshot's matrix implies; `broken` functions answer with an error code;
    `absent` ones are not exported, as by an older driver; `mig` gives a GPU's MIG devices; `now` what each GPU
    shows at this moment.
    """

    machine: Topology
    nvlinks: Mapping[int, tuple[NvLink, ...]] | None = None
    mig: Mapping[int, tuple[Slice, ...]] = field(default_factory=dict)
    broken: Mapping[str, int] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    now: Mapping[int, Now] = field(default_factory=dict)

    def build(self, folder: Path) -> Path:
        """The folder that holds the library; skips where there is no C compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler to build the NVML stand-in with")
        source = self.source()
        home = folder / hashlib.sha256(source.encode()).hexdigest()[:16]
        if not home.exists():
            home.mkdir()
            (home / "nvml.c").write_text(source)
            library = home / "libnvidia-ml.so.1"
            command = [compiler, "-shared", "-fPIC", "-w", "-o", library, home / "nvml.c"]
            subprocess.run(command, timeout=SESSION_SECONDS, check=True)
        return home

    def source(self) -> str:
        gpus = ",\n".join(self._gpu(i, gpu) for i, gpu in enumerate(self.machine.gpus)) or "{0}"
        bodies = [
            f"int {name}() {{ return {self.broken[name]}; }}" if name in self.broken else f"int {name}{rest}"
            for name, rest in _FUNCTIONS.items()
            if name not in self.absent
        ]
        major, _, minor = (self.machine.cuda_version or "0.0").partition(".")
        return "\n".join(
            [
                _TYPES,
                f"static struct gpu gpus[] = {{\n{gpus}\n}};",
                f"static const unsigned count = {len(self.machine.gpus)};",
                f'static const char *driver = "{self.machine.driver_version}";',
                f"static const int cuda = {int(major) * 1000 + int(minor) * 10};",
                self._levels(),
                self._dials(),
                _COMMON,
                *bodies,
            ]
        )

    def _levels(self) -> str:
        rows = [", ".join(str(_LEVELS.get(link.kind, 50) if link else 0) for link in row) for row in self.machine.links]
        return f"static int levels[][16] = {{ {', '.join('{' + row + '}' for row in rows) or '{0}'} }};"

    def _dials(self) -> str:
        rows = [self._dial(self.now.get(i, Now())) for i in range(len(self.machine.gpus))]
        return f"static struct dials dials[] = {{ {', '.join(rows) or '{0}'} }};"

    def _dial(self, now: Now) -> str:
        processes = ", ".join(f"{{{pid}, {percent}}}" for pid, percent in now.processes.items())
        return (
            f"{{{now.celsius}, {now.mhz}, {now.milliwatts}, {now.percent}, {now.memory_used_bytes}ull, "
            f"{now.reasons}ull, {int(now.stale)}, {len(now.processes)}, {{{processes or '{0}'}}}}}"
        )

    def _gpu(self, i: int, gpu: Gpu) -> str:
        links = self.nvlinks.get(i, ()) if self.nvlinks is not None else self._direct(i)
        link_text = ", ".join(f"{{{_pci(link.address, link.device_id)}, {link.kind}}}" for link in links)
        slices = self.mig.get(i, ())
        slice_text = ", ".join(
            f'{{"{s.uuid}", "{s.name}", {s.memory_bytes}ull, {s.multiprocessors}, {s.gpu_slices}, {s.compute_slices}}}'
            for s in slices
        )
        major, minor = gpu.compute_capability or (0, 0)
        numbers = (gpu.cores, gpu.max_sm_clock_mhz, gpu.pcie_generation, gpu.pcie_width)
        current = (gpu.pcie_current_generation, gpu.pcie_current_width)
        return (
            f'{{"{gpu.name}", "{gpu.uuid}", {gpu.memory_bytes or 0}ull, {major}, {minor}, '
            f"{', '.join(str(n or 0) for n in (*numbers, *current))}, {_pci(gpu.pci_bus_id or NO_ADDRESS)}, "
            f"{len(links)}, {{{link_text or '{0}'}}}, {int(i in self.mig)}, {len(slices)}, {{{slice_text or '{0}'}}}}}"
        )

    def _direct(self, i: int) -> list[NvLink]:
        row = self.machine.links[i]
        ends = [(link.nvlinks, self.machine.gpus[j].pci_bus_id) for j, link in enumerate(row) if link is not None]
        return [NvLink(GPU, address or NO_ADDRESS) for count, address in ends for _ in range(count)]


def _pci(address: str, device_id: int = 0x15F910DE) -> str:
    domain, bus, rest = address.split(":")
    return f"{{0x{domain}, 0x{bus}, 0x{rest.partition('.')[0]}, {device_id}u}}"


_TYPES = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned long long u64;
typedef size_t handle;
struct pci { unsigned domain, bus, device, id; };
struct link { struct pci pci; unsigned kind; };
struct slice { const char *uuid, *name; u64 memory; unsigned multiprocessors, gpu_slices, compute_slices; };
struct gpu { const char *name, *uuid; u64 memory; int major, minor;
  unsigned cores, clock, generation, width, current_generation, current_width; struct pci pci;
  unsigned links; struct link link[36]; unsigned mig, slices; struct slice slice[8]; };
struct dials { unsigned celsius, mhz, milliwatts, percent; u64 used, reasons;
  int stale; unsigned processes; struct { unsigned pid, percent; } process[8]; };
/* As in nvml.h */
struct nvml_pci { char old_id[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct nvml_memory { u64 total, free, used; };
struct nvml_process { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; };
struct nvml_use { unsigned pid; u64 time; unsigned sm, memory, encoder, decoder; };
struct nvml_rates { unsigned gpu, memory; };
struct nvml_attributes { unsigned multiprocessors, other[5], gpu_slices, compute_slices; u64 mb; };
"""

# A GPU's handle is its index + 1; a MIG device's is 1000 + 10 * index + place.
_COMMON = """
#define G(h) gpus[(h) - 1]
#define IS_SLICE(h) ((h) >= 1000)
#define S(h) gpus[((h) - 1000) / 10].slice[((h) - 1000) % 10]
#define D(h) dials[IS_SLICE(h) ? ((h) - 1000) / 10 : (h) - 1]
#define WHOLE(h) if (IS_SLICE(h)) return 3
static int number(unsigned value, unsigned *out) { *out = value; return value ? 0 : 3; }
static void logged(const char *word) {
  const char *path = getenv("NVML_STAND_IN_LOG"); FILE *file = path ? fopen(path, "a") : 0;
  if (file) { fputs(word, file); fclose(file); } }
static int pci(struct pci from, struct nvml_pci *to) {
  memset(to, 0, sizeof *to); to->domain = from.domain; to->bus = from.bus; to->device = from.device; to->id = from.id;
  return 0; }
"""

_FUNCTIONS = {
    "nvmlInitWithFlags": '(unsigned flags) { logged("init "); return 0; }',
    "nvmlShutdown": '(void) { logged("shutdown "); return 0; }',
    "nvmlSystemGetDriverVersion": "(char *out, unsigned size) { strncpy(out, driver, size); return 0; }",
    "nvmlSystemGetCudaDriverVersion": "(int *out) { *out = cuda; return 0; }",
    "nvmlDeviceGetCount_v2": "(unsigned *out) { *out = count; return 0; }",
    "nvmlDeviceGetHandleByIndex_v2": "(unsigned i, handle *out) { *out = i + 1; return i < count ? 0 : 2; }",
    "nvmlDeviceGetName": "(handle h, char *out, unsigned n) {"
    " strncpy(out, IS_SLICE(h) ? S(h).name : G(h).name, n); return 0; }",
    "nvmlDeviceGetUUID": "(handle h, char *out, unsigned n) {"
    " strncpy(out, IS_SLICE(h) ? S(h).uuid : G(h).uuid, n); return 0; }",
    "nvmlDeviceGetMemoryInfo": "(handle h, struct nvml_memory *out) {"
    " out->total = IS_SLICE(h) ? S(h).memory : G(h).memory; out->used = D(h).used; return 0; }",
    "nvmlDeviceGetCudaComputeCapability": "(handle h, int *major, int *minor) {"
    " WHOLE(h); *major = G(h).major; *minor = G(h).minor; return 0; }",
    "nvmlDeviceGetNumGpuCores": "(handle h, unsigned *out) { WHOLE(h); return number(G(h).cores, out); }",
    "nvmlDeviceGetMaxClockInfo": "(handle h, unsigned kind, unsigned *out) {"
    " WHOLE(h); return kind == 1 ? number(G(h).clock, out) : 2; }",
    "nvmlDeviceGetMaxPcieLinkGeneration": "(handle h, unsigned *out) {"
    " WHOLE(h); return number(G(h).generation, out); }",
    "nvmlDeviceGetMaxPcieLinkWidth": "(handle h, unsigned *out) { WHOLE(h); return number(G(h).width, out); }",
    "nvmlDeviceGetCurrPcieLinkGeneration": "(handle h, unsigned *out) {"
    " WHOLE(h); return number(G(h).current_generation, out); }",
    "nvmlDeviceGetCurrPcieLinkWidth": "(handle h, unsigned *out) { WHOLE(h); return number(G(h).current_width, out); }",
    "nvmlDeviceGetPciInfo_v3": "(handle h, struct nvml_pci *out) { WHOLE(h); return pci(G(h).pci, out); }",
    "nvmlDeviceGetTopologyCommonAncestor": "(handle a, handle b, int *out) { *out = levels[a - 1][b - 1]; return 0; }",
    "nvmlDeviceGetNvLinkState": "(handle h, unsigned link, unsigned *out) {"
    " *out = 1; return link < G(h).links ? 0 : 2; }",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": "(handle h, unsigned link, struct nvml_pci *out) {"
    " return pci(G(h).link[link].pci, out); }",
    "nvmlDeviceGetNvLinkRemoteDeviceType": "(handle h, unsigned link, unsigned *out) {"
    " *out = G(h).link[link].kind; return 0; }",
    "nvmlDeviceGetMigMode": "(handle h, unsigned *now, unsigned *later) { *now = *later = G(h).mig; return 0; }",
    "nvmlDeviceGetMaxMigDeviceCount": "(handle h, unsigned *out) { *out = 7; return 0; }",
    "nvmlDeviceGetMigDeviceHandleByIndex": "(handle h, unsigned i, handle *out) {"
    " *out = 1000 + 10 * (h - 1) + i; return i < G(h).slices ? 0 : 6; }",
    "nvmlDeviceGetAttributes_v2": "(handle h, struct nvml_attributes *out) {"
    " if (!IS_SLICE(h)) return 3; memset(out, 0, sizeof *out); out->multiprocessors = S(h).multiprocessors;"
    " out->gpu_slices = S(h).gpu_slices; out->compute_slices = S(h).compute_slices; out->mb = S(h).memory >> 20;"
    " return 0; }",
    "nvmlDeviceGetHandleByUUID": "(const char *uuid, handle *out) {"
    " for (unsigned i = 0; i < count; i++) {"
    "  if (!strcmp(uuid, gpus[i].uuid)) { *out = i + 1; return 0; }"
    "  for (unsigned j = 0; j < gpus[i].slices; j++)"
    "   if (!strcmp(uuid, gpus[i].slice[j].uuid)) { *out = 1000 + 10 * i + j; return 0; } }"
    " return 6; }",
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": "(handle h, handle *out) {"
    " *out = (h - 1000) / 10 + 1; return IS_SLICE(h) ? 0 : 2; }",
    "nvmlDeviceGetTemperature": "(handle h, int sensor, unsigned *out) { WHOLE(h); *out = D(h).celsius; return 0; }",
    "nvmlDeviceGetClockInfo": "(handle h, unsigned kind, unsigned *out) {"
    " WHOLE(h); *out = kind == 2 ? 3201 : D(h).mhz; return kind == 1 || kind == 2 ? 0 : 2; }",
    "nvmlDeviceGetPowerUsage": "(handle h, unsigned *out) { WHOLE(h); *out = D(h).milliwatts; return 0; }",
    "nvmlDeviceGetEnforcedPowerLimit": "(handle h, unsigned *out) { WHOLE(h); *out = 300000; return 0; }",
    "nvmlDeviceGetUtilizationRates": "(handle h, struct nvml_rates *out) {"
    " WHOLE(h); out->gpu = D(h).percent; return 0; }",
    "nvmlDeviceGetCurrentClocksEventReasons": "(handle h, u64 *out) { WHOLE(h); *out = D(h).reasons; return 0; }",
    "nvmlDeviceGetCurrentClocksThrottleReasons": "(handle h, u64 *out) { WHOLE(h); *out = D(h).reasons; return 0; }",
    "nvmlDeviceGetComputeRunningProcesses_v3": "(handle h, unsigned *n, struct nvml_process *out) {"
    " unsigned room = *n; *n = D(h).processes; if (room < *n) return 7;"
    " for (unsigned i = 0; i < *n; i++) out[i].pid = D(h).process[i].pid;"
    " return 0; }",
    "nvmlDeviceGetProcessUtilization": "(handle h, struct nvml_use *out, unsigned *n, u64 since) {"
    " WHOLE(h); unsigned room = *n; *n = D(h).processes; if (room < *n) return 7;"
    " for (unsigned i = 0; i < *n; i++) { out[i].pid = D(h).process[i].pid; out[i].sm = D(h).process[i].percent;"
    " out[i].time = D(h).stale ? since - 1 : since; }"
    " return 0; }",
}
