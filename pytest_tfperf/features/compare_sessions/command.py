"""`tfperf compare`: the workloads and figures that moved between two sessions, exports or revisions of baselines."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.console.arguments import (
    LATEST,
    Commands,
    Group,
    add_command,
    checked,
    folder,
    history_place,
    open_history,
    session_id,
)
from pytest_tfperf.console.output import show, show_json, width
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.core.figure import shown_name
from pytest_tfperf.core.measurement import environment_changes
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.topology import is_name
from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.features.compare_sessions.side_comparison import (
    FigureValue,
    SideComparison,
    compare_sides,
    values_of_measurements,
    values_of_rows,
)
from pytest_tfperf.reports.numbers import change, counted, percent, rate
from pytest_tfperf.reports.table import Columns, paragraphs, shown_names, table
from pytest_tfperf.reports.verdict import written
from pytest_tfperf.revisions.git import run_git
from pytest_tfperf.stores import baseline_file, measurement_file

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline


def add_to(commands: Commands) -> None:
    """Add the command."""
    compare = add_command(
        commands,
        _run,
        "compare: compare two sessions, exports or revisions of baselines. It shows changes beyond noise",
        group=Group.CHANGE,
        examples=(
            "tfperf compare previous latest",
            "tfperf compare 20261121-030002-a1b2c3 20261122-030001-c8d7f4",
            "tfperf compare old.json new.json --tolerance=0.02",
            "tfperf compare main..HEAD",
        ),
        statuses={
            EXIT_GREEN: "compared, whatever moved; with --tolerance: none is slower by more",
            EXIT_REGRESSED: "with --tolerance: one, or all in common, is slower by more, and noise does not explain it",
            EXIT_NOT_MEASURED: "no workload is on both sides",
        },
        parents=[history_place(), folder(Settings.baselines, "folder of the baselines")],
    )
    kinds = (
        "a session's id, latest or previous; a file of `tfperf history --export`; a CSV, or a git revision of baselines"
    )
    compare.add_argument("a", metavar="A", help=f"{kinds}; A..B gives two revisions")
    compare.add_argument("b", nargs="?", metavar="B", help="what is compared with A, named in the same way")
    compare.add_argument("--machine", metavar="NAME", help="only this machine's figures")
    compare.add_argument(
        "--tolerance",
        type=checked(parse.tolerance),
        metavar="FRACTION",
        help="exit with 1 if a workload, or all in common, is slower by more than this, such as 0.02; or a figure is "
        "worse by more than its own tolerances",
    )
    compare.add_argument("--json", action="store_true", help="print the figures as JSON")


def _run(arguments: argparse.Namespace) -> int:
    accepted: float | None = arguments.tolerance
    names = _sides(arguments)
    (a_name, a), (b_name, b) = (_figures(name, arguments) for name in names)
    compared = compare_sides(a, b)
    if arguments.json:
        show_json({"a": a_name, "b": b_name} | plain(compared))
    else:
        show(*render(compared, a_name, b_name, width()))
    if not compared.ratios:
        return EXIT_NOT_MEASURED
    return EXIT_REGRESSED if accepted is not None and compared.is_slower_than(accepted) else EXIT_GREEN


def _sides(arguments: argparse.Namespace) -> tuple[str, str]:
    if arguments.b is not None:
        return arguments.a, arguments.b
    a, dots, b = arguments.a.partition("..")
    if not dots or Path(arguments.a).exists():  # ../old.json is a file
        raise TfperfError(f"{arguments.a}: give what to compare it with: tfperf compare A B, or REVISION..REVISION")
    return a or "HEAD", b.lstrip(".") or "HEAD"


def _figures(side: str, arguments: argparse.Namespace) -> tuple[str, list[FigureValue]]:
    path = Path(side)
    if path.is_dir() or (path.exists() and path.suffix == ".csv"):
        values = values_of_rows(_rows_of_path(path))
    elif path.exists():
        values = values_of_measurements(measurement_file.read(path))
    else:
        side, values = _of_session_or_revision(side, arguments)
    # A single CSV does not name its machine.
    values = [value for value in values if not value.machine or arguments.machine in (None, value.machine)]
    if not values:
        of = f" of {arguments.machine}" if arguments.machine else ""
        raise TfperfError(
            f"{side} has no figures{of} to compare", next_step="`tfperf history` lists sessions and machines"
        )
    return side, values


def _of_session_or_revision(side: str, arguments: argparse.Namespace) -> tuple[str, list[FigureValue]]:
    history = open_history(arguments)
    try:
        if side in LATEST:
            side = session_id(history, side, arguments.machine, alone_only=True) or side
        is_session, why = history.has(session=side, machine=arguments.machine, is_interleaved=False), list[str]()
    except TfperfError as error:
        if side in LATEST:
            raise
        is_session, why = False, [str(error)]
    if is_session:
        return f"session {side}", values_of_measurements(history.measurements(session=side, is_interleaved=False))
    try:
        return f"revision {side}", values_of_rows(_rows_of_revision(side, arguments.baselines))
    except TfperfError as error:
        raise TfperfError(f"{error}; nor has the history such a session", *why) from None


_COLUMNS = Columns(
    right={"a", "b", "b / a", "change", "own change", "noise"},
    optional=("own change", "95 % CI", "noise", "b", "a", "unit", "machine"),
    ids=("workload",),
)
_MOST_NAMED = 10


def render(compared: SideComparison, a: str, b: str, width: int | None = None) -> list[str]:
    """Return both sides' names, the table, the common change, what is missing, and a conclusion."""
    names = [f"a: {a}", f"b: {b}"]
    blocks = [names, table(_rows(compared), _COLUMNS, width), list(_facts(compared)), [conclusion(compared)]]
    return paragraphs(*blocks)


def conclusion(compared: SideComparison) -> str:
    """Return "2 of 12 workloads moved by more than noise explains: 1 slower, 1 faster."."""
    if not compared.ratios:
        return "No workload is on both sides."
    figures = sum(not ratio.b.is_throughput for ratio in compared.ratios)
    moved, workloads = compared.moved, counted(len(compared.ratios) - figures, "workload")
    workloads += f" and {counted(figures, 'figure')}" if figures else ""
    if not moved:
        return f"None of {workloads} moved by more than noise explains."
    movements = Counter(ratio.movement for ratio in moved)  # slower workloads come first
    counts = ", ".join(f"{count} {word}" for word, count in movements.items())
    return f"{len(moved)} of {workloads} moved by more than noise explains: {counts}."


def _rows(compared: SideComparison) -> Iterator[Mapping[str, str | None]]:
    ratios, common = compared.ratios, compared.common
    names = shown_names((ratio.b.key.workload, ratio.b.name) for ratio in ratios)
    has_several_machines = len({side.machine for ratio in ratios for side in (ratio.a, ratio.b)}) > 1
    for ratio in ratios:
        a, b = ratio.a, ratio.b
        has_own_change = common is not None and b.is_throughput
        is_exact, is_finite = ratio.low == ratio.high, ratio.ratio < math.inf
        yield {
            "moved": ratio.movement.value,
            "machine": " -> ".join(dict.fromkeys((a.machine, b.machine))) if has_several_machines else None,
            "workload": names[b.key.workload, b.name],
            "topology": b.key.topology,
            "figure": None if b.is_throughput else shown_name(b.key.figure),
            "a": _written(a),
            "b": _written(b),
            "unit": f"{b.unit}/s" if b.is_throughput else None,
            "b / a": f"{ratio.ratio:.3f}" if is_finite else None,
            "95 % CI": None if is_exact else f"{ratio.low:.3f} to {ratio.high:.3f}",
            "change": change(ratio.ratio - 1) if is_finite else None,
            "own change": change(ratio.ratio / (1 + (common or 0.0)) - 1) if has_own_change else None,
            "noise": None if is_exact else percent(ratio.noise),
        }


def _written(value: FigureValue) -> str:
    number = math.exp(value.log_value)
    return rate(number) if value.is_throughput else written(value.figure, number)


def _facts(compared: SideComparison) -> Iterator[str]:
    if compared.common is not None:
        interval = f"95 % CI {change(compared.common_low)} to {change(compared.common_high)}"
        yield f"in common    {change(compared.common)} ({interval}): taken out of each workload's own change"
    elif compared.ratios:
        yield "in common    not known: fewer than 8 workloads, so noise includes what a session does to all of them"
    yield from _named("only in a", compared.only_a)
    yield from _named("only in b", compared.only_b)
    yield from _named("other unit", [b for a, b in compared.other_units if a.unit != b.unit])
    yield from _named("other step", [b for a, b in compared.other_units if a.unit == b.unit])
    differences = (environment_changes(ratio.a.environment, ratio.b.environment) for ratio in compared.ratios)
    if changed := dict.fromkeys(map(str, chain.from_iterable(differences))):
        yield f"environment  {', '.join(list(changed)[:_MOST_NAMED])}"


def _named(label: str, values: Sequence[FigureValue]) -> Iterator[str]:
    if values:
        names = [
            " ".join(filter(None, (value.name or value.key.workload, value.key.topology, value.key.figure)))
            for value in values
        ]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        yield f"{label:<12} {', '.join(names[:_MOST_NAMED])}{more}"


def _rows_of_path(path: Path) -> list[Baseline]:
    """Read the rows of a CSV, or of all CSVs of a folder; a single file's machine is "", so that two files compare."""
    if not path.is_dir():
        return _rows_in("", path)
    return [row for file in sorted(path.glob("*.csv")) if is_name(file.stem) for row in _rows_in(file.stem, file)]


def _rows_in(machine: str, file: Path) -> list[Baseline]:
    with worded(file, "read", "Name another one"):
        data = file.read_bytes()
    return list(baseline_file.parse(data, machine, str(file)).values())


def _rows_of_revision(revision: str, folder: Path) -> list[Baseline]:
    """Read the rows that a folder had at a git revision; none if the revision has no such folder."""
    folder = folder.resolve()  # "." has no name
    commit = _git(folder, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
    files = _git(folder, "ls-tree", "-z", "--name-only", commit, "--", f"{folder.name}/").split("\0")
    rows: list[Baseline] = []
    for name in files:
        if name.endswith(".csv") and is_name(Path(name).stem):
            data = _git(folder, "show", f"{commit}:./{name}").encode()
            rows += baseline_file.parse(data, Path(name).stem, f"{revision}:{name}").values()
    return rows


def _git(folder: Path, *arguments: str) -> str:
    # It runs in the folder above, because the folder itself may exist in another revision only.
    done = run_git(folder.absolute().parent, *arguments)
    if done.returncode:
        revision, why = arguments[-1].removesuffix("^{commit}"), "; ".join(done.stderr.split("\n")).rstrip("; ")
        raise TfperfError(
            f"{revision}: there is no such file, and git knows no such revision ({why})", next_step="Name another one"
        )
    return done.stdout
