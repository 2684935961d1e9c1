"""pytest's side: hooks and fixtures, each of which delegates."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol  # what every plugin that runs a test twice uses; pytest has no public name

from pytest_tfperf import pytest_reports as outcomes
from pytest_tfperf import settings
from pytest_tfperf.core import catalogue, parameters
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, WorkloadError
from pytest_tfperf.reports import terminal
from pytest_tfperf.reports.document_coverage import key_of
from pytest_tfperf.reports.live import LiveLine
from pytest_tfperf.session import Session

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_tfperf.core.baseline import Key
    from pytest_tfperf.core.topology import Topology
    from pytest_tfperf.fixture import ThroughputFixture

_SESSION = pytest.StashKey[Session]()
_FIXTURE: pytest.StashKey[ThroughputFixture] = pytest.StashKey()

_MARKERS = (
    "gpu: a performance test that needs NVIDIA GPUs",
    "cpu: a performance test that runs on virtual CPU devices (with `gpu` too: on GPUs where there are some)",
    "multinode: a performance test that needs several machines",
    "slow: takes minutes rather than seconds",
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the `tfperf` group."""
    settings.add_options(parser)
    config: Any = pluginmanager.get_plugin("pytestconfig")
    try:
        settings.refuse_unknown_update(config.invocation_params.args)
    except TfperfError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks that name users' own models and pipelines."""
    from pytest_tfperf import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings; refuse at once what would only fail after the measuring."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    try:
        _register_names(config)
        session = config.stash[_SESSION] = Session(settings.Settings.from_config(config), LiveLine())
        session.runs_nothing = session.settings.coverage or config.option.collectonly
        if session.settings.coverage and getattr(config.option, "dist", "no") != "no":
            raise TfperfError("--tfperf-coverage reads the tests that this process collects: run it without -n")
        if not config.option.collectonly and not _in_xdist(config):
            session.prepare()
    except TfperfError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the workers, however the session ended."""
    if session := config.stash.get(_SESSION, None):
        session.close()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Connect the progress line with the terminal, where there is one."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # what CI and Slurm send when time is up
        signal.signal(signal.SIGTERM, _end_in_order)
        session.config.add_cleanup(_leave_sigterm)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        terminal.connect(session.config.stash[_SESSION].live, session.config, reporter)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give pytest-benchmark our clock, narrow to what failed."""
    session = config.stash[_SESSION]
    if session.settings.update_baselines is settings.Update.FAILED:
        _keep_failed(config, items)
    for item in items:
        if "throughput" in getattr(item, "fixturenames", ()):
            _set_clock(item)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Which tests are ours, once every plugin has deselected what it will (`--lf` does so last of all)."""
    state = session.config.stash[_SESSION]
    ours = [item for item in session.items if "throughput" in getattr(item, "fixturenames", ())]
    state.tests = [item.nodeid for item in ours]
    state.refused = {item.nodeid: found for item in ours if (found := parameters.faults(_parameters(item)))}
    state.marks = {item.nodeid: (_marked(item, "cpu"), _marked(item, "gpu")) for item in ours}
    state.reading = {item.nodeid for item in ours if _reads_data(item, state.settings.input_pipeline)}
    if state.settings.coverage:
        state.keys = set(filter(None, map(_key_of, ours)))
    elif not state.runs_nothing and not _in_xdist(session.config):
        try:
            state.check()
        except TfperfError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """How many tests, how long about, and which of them can't be."""
    return [] if _in_xdist(config) else config.stash[_SESSION].before()


def pytest_make_parametrize_id(val: object) -> str | None:
    """A workload among a test's parameters is shown by its id."""
    return val.id if isinstance(val, Workload) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With `--tfperf-coverage` nothing runs."""
    return True if session.config.stash[_SESSION].settings.coverage else None


@pytest.fixture
def input_pipeline(request: pytest.FixtureRequest) -> str:
    """The input pipeline's name: `--tfperf-input-pipeline`, or the parameter where it is parametrised indirectly."""
    given = getattr(request, "param", None)
    return str(given) if given is not None else request.config.stash[_SESSION].settings.input_pipeline


@pytest.fixture
def gpu_topology(request: pytest.FixtureRequest) -> Topology:
    """The machine; `gpu_topology.take(n)` picks n devices: GPUs, or virtual CPU devices in tests marked `cpu`."""
    marks = {mark: _marked(request.node, mark) for mark in ("cpu", "gpu")}
    return request.config.stash[_SESSION].topology_for(**marks)


@pytest.fixture
def throughput(request: pytest.FixtureRequest, benchmark: Any) -> Iterator[ThroughputFixture]:
    """Measures: `throughput.check(workload, on=gpu_topology.take(n))`."""
    from pytest_tfperf.fixture import ThroughputFixture  # what measures is of no use to who only collects

    session = request.config.stash[_SESSION]
    _refuse_xdist(request.config, benchmark)
    if request.node.nodeid not in session.tests:
        benchmark.skipped = True  # as above
        raise TfperfError(
            "a test that asks for `throughput` while it runs can't be run again where it is in doubt: "
            "name the fixture among its arguments"
        )
    if found := session.refused.get(request.node.nodeid):
        benchmark.skipped = True  # as above
        raise WorkloadError("\n".join(found))
    fixture = request.node.stash[_FIXTURE] = ThroughputFixture(session, request.node.nodeid)
    session.live.test = request.node.nodeid
    yield fixture
    _feed(benchmark, fixture)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a throughput test; one that wants more runs is not reported but run again after all others, run by run."""
    session = item.config.stash[_SESSION]
    if item.nodeid not in session.tests:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    try:
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    except (KeyboardInterrupt, pytest.exit.Exception):
        session.close()  # pytest takes its time to find out where it was interrupted, and workers would last as long
        raise
    fixture = item.stash.get(_FIXTURE, None)
    if fixture is not None and fixture.undecided and not any(report.failed for report in reports):
        session.defer(item.nodeid, fixture.records)
        item.session.items.append(item)  # pytest walks this list as it grows
    else:
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """A user's fixture may take devices, too."""
    with outcomes.skipping(item.config.stash[_SESSION]):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Apply the outcomes once the body is through, so that its own asserts come first; a skip hides no regression."""
    fixture = item.stash.get(_FIXTURE, None)
    with outcomes.skipping(item.config.stash[_SESSION]):
        if fixture is None:
            yield
            return
        with fixture.open_for_calls():
            try:
                yield
            except pytest.skip.Exception:
                fixture.conclude(lambda text: outcomes.warn(item, text))
                raise
            fixture.conclude(lambda text: outcomes.warn(item, text))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell "could not measure" (an error) from "regressed" (a failure), and say either without a traceback."""
    report = yield
    if report.failed and call.excinfo is not None and item.nodeid in item.config.stash[_SESSION].tests:
        outcomes.word(report, item, item.config.stash[_SESSION], item.stash.get(_FIXTURE, None), call.excinfo.value)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the workers and set the exit status."""
    state = session.config.stash[_SESSION]
    state.close()
    session.exitstatus = state.exit_status(int(session.exitstatus), failures=session.testsfailed)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """The table, and what is left to say."""
    # pytest's own `-rs` tells the reasons too.
    if lines := config.stash[_SESSION].summary(skips=not terminalreporter.hasopt("skipped")):
        terminalreporter.section("throughput")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Keep clock readings out of pytest-benchmark's machine facts, and put the machine's key in."""
    from pytest_tfperf.reports.pytest_benchmark import forget_clock_readings

    forget_clock_readings(machine_info)
    machine_info["tfperf_machine"] = config.stash[_SESSION].topology.machine


def _leave_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_in_order(*_: object) -> None:
    """End the session as Ctrl-C does: finished results are shown and kept, no worker is left."""
    pytest.exit("SIGTERM: somebody, or a time limit, ended the session")


def _register_names(config: pytest.Config) -> None:
    config.add_cleanup(catalogue.forget())
    for room, hook in (
        ("models", config.hook.pytest_tfperf_models),
        ("pipelines", config.hook.pytest_tfperf_pipelines),
    ):
        for names in hook():
            catalogue.register(room, names)


def _in_xdist(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _refuse_xdist(config: pytest.Config, benchmark: Any) -> None:
    if not _in_xdist(config):
        return
    benchmark.skipped = True  # else pytest-benchmark warns that its fixture was not used
    reason = (
        "throughput is not measured under pytest-xdist: its workers would share the machine. Run these tests without -n"
    )
    if config.stash[_SESSION].settings.require_baseline:
        raise outcomes.ThroughputNotMeasured(reason)
    pytest.skip(reason)


def _marked(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _keep_failed(config: pytest.Config, items: list[pytest.Item]) -> None:
    """pytest's own list of what failed last time, the one behind `--lf`."""
    cache = getattr(config, "cache", None)
    if cache is None:
        raise pytest.UsageError("--update-baselines=failed needs pytest's cache plugin, which is switched off")
    failed = cache.get("cache/lastfailed", {})
    kept = [item for item in items if item.nodeid in failed]
    if items and not kept:
        last = f"none of the {len(failed)} that failed last time is selected" if failed else "no test failed last time"
        config.stash[_SESSION].nothing_to_record = f"--update-baselines=failed: {last}, as pytest's cache has it (--lf)"
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in failed])
    items[:] = kept


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _key_of(item: pytest.Item) -> Key | None:
    """What a test on GPUs would measure."""
    return key_of(_parameters(item)) if item.get_closest_marker("gpu") else None


def _reads_data(item: pytest.Item, default: str) -> bool:
    """Whether a test's parameters, or `--tfperf-input-pipeline` where it has none, name a pipeline of photographs."""
    params: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    names = [value.input_pipeline for value in params.values() if isinstance(value, Workload)]
    if "input_pipeline" in getattr(item, "fixturenames", ()):
        names.append(params.get("input_pipeline", default))
    known = [name for name in names if isinstance(name, str) and not parameters.faults({"input_pipeline": name})]
    return any(catalogue.pipeline_reads_data(name) for name in known)


def _set_clock(item: pytest.Item) -> None:
    """Our timer beside what the test's own `benchmark` marker says."""
    from pytest_tfperf.reports.pytest_benchmark import window_clock

    own = item.get_closest_marker("benchmark")
    item.add_marker(pytest.mark.benchmark(**{**(own.kwargs if own else {}), "timer": window_clock}), append=False)


def _feed(benchmark: Any, fixture: ThroughputFixture) -> None:
    """The first record as pytest-benchmark's rounds; a test that measured nothing has none."""
    from pytest_tfperf.reports.pytest_benchmark import feed

    if fixture.records and not fixture.undecided:
        feed(benchmark, fixture.records[0])
    else:
        benchmark.skipped = True  # as above
