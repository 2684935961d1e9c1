"""The command `tfperf`. It needs no pytest.

Modules that take noticeable time to import (Jinja2, NumPy, NVML) are imported when a command runs.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version

from pytest_tfperf import features
from pytest_tfperf.cli import history
from pytest_tfperf.console import output, session_settings
from pytest_tfperf.console.arguments import Group, add_command, status_lines, unread, wrapped
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_NOT_MEASURED, EXIT_USAGE
from pytest_tfperf.core.topology import Gpu, Topology
from pytest_tfperf.errors import DOCS, TfperfError
from pytest_tfperf.reports.numbers import size
from pytest_tfperf.reports.table import aligned, paragraphs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; 1 means a regression and nothing else."""
    output.prepare()
    if sys.platform == "win32":  # which lacks modules that the commands import
        output.warn(f"this command needs Linux, and this is {sys.platform}")
        return EXIT_USAGE
    session_settings.forget()
    try:
        parsed, unknown = parser().parse_known_args(arguments)
        if unknown:  # parse_args would print the usage of `tfperf` itself, without the options of the command
            near = get_close_matches(unknown[0].partition("=")[0], parsed.parser._option_string_actions, n=1)
            meant = f". Did you mean {near[0]!r}?" if near else ""
            parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
    except SystemExit as ended:  # argparse has printed the error, or the help
        return EXIT_USAGE if ended.code else EXIT_GREEN
    except TfperfError as error:  # of pytest's ini file, which has defaults
        output.warn(str(error))
        return EXIT_USAGE
    return _guarded(parsed)


def _guarded(parsed: argparse.Namespace) -> int:
    """The command's own status, or that of the error that stopped it, which is shown in one line."""
    try:
        with output.never_silent(parsed.parser.prog):
            status: int = parsed.run(parsed)
    except TfperfError as error:
        output.warn(str(error))
        return EXIT_USAGE
    except KeyboardInterrupt:
        output.warn("interrupted")
        return EXIT_INTERRUPTED
    except MemoryError:
        output.warn("not enough memory. Give fewer or smaller files, or free memory")
        return EXIT_NOT_MEASURED
    except OSError as error:
        output.discard()
        reason = error.strerror or type(error).__name__
        if error.filename is None:
            output.warn(f"the output can't be written: {reason}. Send it to another file")
        else:
            output.warn(f"{error.filename} can't be used: {reason}. Name another, or correct its permissions")
        return EXIT_NOT_MEASURED
    except Exception:
        output.warn(f"a fault of pytest-tfperf itself, please report it:\n{traceback.format_exc()}")
        return EXIT_INTERNAL
    finally:
        if left_out := unread(parsed):
            output.warn(left_out)
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of `tfperf`, with all commands."""
    about = (
        "pytest runs the tests that gate training speed. These commands prepare such tests and their machine, and "
        "explain, compare and report what was measured."
    )
    top: argparse.ArgumentParser = output.Parser(
        prog="tfperf",
        description=wrapped(about),
        epilog="\n".join(("exit status of every command:", *status_lines(), "", f"Documentation: {DOCS}")),
        add_help=False,  # its options come below the commands
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    topology = add_command(
        commands,
        _topology,
        "topology: show GPUs, the links between them, and the host",
        examples=("tfperf topology", "tfperf topology --json > machine.json"),
    )
    topology.add_argument("--json", action="store_true", help="as JSON, to keep as a snapshot")
    actions = history.add_to(commands)
    for command in features.commands():
        if hasattr(command, "add_to"):
            command.add_to(commands)
        if hasattr(command, "add_to_history"):
            command.add_to_history(actions)
    top._positionals._group_actions.remove(commands)  # its commands are listed in groups
    for group in Group:
        listed = [row for row in commands._choices_actions if commands.choices[row.dest].get_default("group") is group]
        top.add_argument_group(group)._group_actions += sorted(listed, key=lambda row: row.dest)
    options = top.add_argument_group("options")
    options.add_argument("-h", "--help", action="help", help="show this; after a COMMAND its options and examples")
    options.add_argument("--version", action="version", version=f"pytest-tfperf {_version()}", help="show the version")
    return top


def _version() -> str:
    try:
        return version("pytest-tfperf")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "(not installed)"


def _topology(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover

    machine = discover()
    if arguments.json:
        output.show_json(machine.to_json())
    else:
        output.show(*render(machine), "")
    return EXIT_GREEN


# nvidia-smi's words and order, worst path first.
_LEGEND = (
    ("X", "the GPU itself"),
    ("SYS", "PCIe and the link between NUMA nodes (QPI, UPI, Infinity Fabric)"),
    ("NODE", "PCIe and the link between the host bridges of one NUMA node"),
    ("PHB", "PCIe and one host bridge (usually the CPU)"),
    ("PXB", "several PCIe bridges, no host bridge"),
    ("PIX", "at most one PCIe bridge"),
    ("NV#", "# NVLinks together"),
    ("?", "not reported by the driver, or not usable by CUDA (MIG)"),
)


def render(topology: Topology) -> list[str]:
    """Machine and host, GPUs, the matrix with CPU and NUMA affinity, and a legend; without GPUs, the reason."""
    if not topology.gpus:
        return _head(topology)
    gpus = aligned([[label, *_facts(gpu)] for label, gpu in zip(_labels(topology.gpus), topology.gpus, strict=True)])
    legend = ["Legend", *(f"  {word:<4} = {meaning}" for word, meaning in _LEGEND)]
    return paragraphs(_head(topology), gpus, _matrix(topology), legend)


def _head(topology: Topology) -> list[str]:
    host = topology.host
    name = f"{host.hostname}: " if host.hostname else ""
    physical = f" ({host.physical_cores} physical)" if host.physical_cores else ""
    memory = f", {size(host.memory_bytes)}" if host.memory_bytes is not None else ""
    cuda = f", CUDA {topology.cuda_version}" if topology.cuda_version else ""
    kernel = f", Linux {host.kernel}" if host.kernel else ""
    cores = f"{host.usable_cores} of {host.total_cores} cores usable{physical}"
    lines = [
        ("machine", topology.machine),
        ("host", f"{name}{host.cpu_model}, {cores}{memory}{kernel}"),
        ("driver", f"{topology.driver_version}{cuda}" if topology.driver_version else "none"),
        ("GPUs", topology.describe() if topology.gpus else f"none: {topology.why_no_gpus}"),
        *(("note", note) for note in topology.notes),
    ]
    return [f"{label:<8} {text}" for label, text in lines]


def _facts(gpu: Gpu) -> list[str]:
    capability = ".".join(map(str, gpu.compute_capability)) if gpu.compute_capability else "?"
    rate = "?" if gpu.fp32_tflops is None else f"{gpu.fp32_tflops:.1f}"
    pcie = f"PCIe {gpu.pcie_generation or '?'} x{gpu.pcie_width or '?'}"
    return [gpu.name, size(gpu.memory_bytes), f"compute {capability}", f"{rate} TFLOP/s FP32", pcie, gpu.uuid]


def _matrix(topology: Topology) -> list[str]:
    labels = _labels(topology.gpus)
    rows = [["", *labels, "CPU Affinity", "NUMA Affinity"]]
    for label, gpu, links in zip(labels, topology.gpus, topology.links, strict=True):
        node = "N/A" if gpu.numa_node is None else str(gpu.numa_node)
        rows.append([label, *(" X" if link is None else str(link) for link in links), gpu.cpu_affinity or "N/A", node])
    return aligned(rows)


def _labels(gpus: Sequence[Gpu]) -> list[str]:
    """ "GPU0", with NVML's index; "GPU0.1" for a MIG device of a GPU."""
    counts: Counter[int] = Counter()
    labels = []
    for gpu in gpus:
        labels.append(f"GPU{gpu.index}.{counts[gpu.index]}" if gpu.mig else f"GPU{gpu.index}")
        counts[gpu.index] += 1
    return labels
