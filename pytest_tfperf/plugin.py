"""The hooks that pytest calls and the fixtures that tests use; each delegates."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_tfperf.session import benchmarks, hookspecs, options, running, terminal
from pytest_tfperf.session.selecting import (
    collected_whole,
    keep_failed,
    keep_owned,
    note_deselected,
    note_skipped,
    selected,
    selected_tests,
)
from pytest_tfperf.session.state import SESSION, SessionState, can_measure, is_xdist_worker
from pytest_tfperf.workers import catalogue

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_tfperf.core.topology import Topology
    from pytest_tfperf.session.fixture import ThroughputFixture

_MARKERS = (
    "gpu: a performance test that needs NVIDIA GPUs",
    "cpu: a performance test that runs on virtual CPU devices (with `gpu` too: on GPUs where there are some)",
    "multinode: a performance test that needs several machines",
    "slow: takes minutes rather than seconds",
    "owner(name): the person or team that a performance test belongs to",
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the `tfperf` group."""
    options.add_options(parser)
    config: Any = pluginmanager.get_plugin("pytestconfig")
    options.hide_in_errors_of(parser)
    with options.as_usage_error():
        options.refuse_unknown_update(config.invocation_params.args)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks that name users' own models and pipelines."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings; refuse at once what would otherwise fail after the measuring."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    with options.as_usage_error():
        config.add_cleanup(catalogue.forget())
        _register_names(config)
        state = config.stash[SESSION] = SessionState(options.read_settings(config))
        if not is_xdist_worker(config):
            state.prepare()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the workers, however the session ended."""
    if state := config.stash.get(SESSION, None):
        state.opened.close()


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None]:
    """Leave `--update-baselines` to a conftest.py that has an option of that name."""
    with options.as_usage_error():
        yield
        options.take_short_option(parser, args)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int, int]:
    """Show no password of a URL that was given in the place of a path; let features know the final exit status."""
    with options.without_passwords_in():
        return running.exited(config, (yield))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Narrow the selection to an owner and to what failed last time, and give pytest-benchmark our clock."""
    state = config.stash[SESSION]
    state.collected.update(collected_whole(config, items))
    for item in filter(selected, items):
        benchmarks.request_fixture(item)
    yield
    if state.settings.owner:
        with options.as_usage_error():
            keep_owned(config, items, state.owners)
    keep_failed(config, items, state)
    for item in filter(selected, items):
        benchmarks.set_clock(item)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Remember the throughput tests among them: one that was measured before must not be lost in silence."""
    if items:
        note_deselected(items[0].config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Remember the selected throughput tests. This hook runs when even `--lf` has deselected its tests."""
    state = session.config.stash[SESSION]
    with options.as_usage_error():
        _register_names(session.config)  # a conftest.py in a folder of tests is loaded only when these are collected
        if can_measure():
            state.selection.update(selected_tests(session.items, state.owners))
    if not state.selection:
        return  # a session without throughput tests stays as it is without us
    running.end_in_order_on_sigterm(session.config)
    terminal.connect_progress_line(session.config, state)
    if not is_xdist_worker(session.config):
        with options.as_usage_error(), terminal.progress_by_the_clock(state):
            state.check_stores()


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say how many tests there are, how long they will take, and which of them can't run."""
    return [] if is_xdist_worker(config) else terminal.header(config, config.stash[SESSION])


def pytest_make_parametrize_id(val: object) -> str | None:
    """A workload among a test's parameters is shown by its id."""
    workloads: Any = sys.modules.get("pytest_tfperf.core.workload")  # a test that has one has imported them
    return val.id if workloads and isinstance(val, workloads.Workload) else None


@pytest.fixture
def input_pipeline(request: pytest.FixtureRequest) -> str:
    """The input pipeline's name: that of `--tfperf-input-pipeline`, or the parameter of an indirect parametrisation."""
    return str(getattr(request, "param", request.config.stash[SESSION].settings.input_pipeline))


@pytest.fixture
def gpu_topology(request: pytest.FixtureRequest) -> Topology:
    """The machine's `Topology`; `gpu_topology.take(n)` takes n devices for a measurement.

    They are GPUs in a test marked `gpu`, and virtual CPU devices in one marked `cpu`; with both marks or neither they
    are GPUs where there are any.
    """
    running.require_linux()
    marks = {mark: request.node.get_closest_marker(mark) is not None for mark in ("cpu", "gpu")}
    return request.config.stash[SESSION].session.topology_for(**marks)


@pytest.fixture
def throughput(request: pytest.FixtureRequest) -> Iterator[ThroughputFixture]:
    """The `ThroughputFixture` that measures and judges: `throughput.check(workload, on=gpu_topology.take(n))`."""
    benchmark = benchmarks.fixture_of(request)
    yield running.make_fixture(request)
    benchmarks.feed_benchmark(request.node, benchmark)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a throughput test; a test in doubt is not reported but runs again after all others."""
    if item.nodeid not in item.config.stash[SESSION].selection:
        return None
    running.run_or_defer(item, nextitem)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Show progress by the clock, and judge software and machine as a whole when all tests have run."""
    with terminal.progress_by_the_clock(session.config.stash[SESSION]):
        result = yield
        terminal.report_session_verdicts(session)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Skip a test whose own fixture asks for devices that this machine lacks."""
    with running.skipping(item):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Apply the outcomes when the body has finished or skipped, so that its own asserts come first."""
    with running.applying_outcomes(item):
        yield


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Let a test that runs again find the fixtures of its module and session as it left them."""
    with running.keeping_fixtures(item, nextitem):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report "could not measure" as an error and "regressed" as a failure, both without a traceback."""
    report = yield
    terminal.word(report, item, call)
    note_skipped(report, item.config.stash[SESSION])
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport, config: pytest.Config
) -> tuple[str, str, str] | None:
    """Show a test without a baseline as "measured"."""
    return terminal.measured_only(report, config.stash[SESSION]) if isinstance(report, pytest.TestReport) else None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the workers, set the exit status, and write what was asked for: there may be no terminal to do it."""
    state = session.config.stash[SESSION]
    state.opened.close()
    session.exitstatus = state.status = state.exit_status(int(session.exitstatus), failures=session.testsfailed)
    if is_xdist_worker(session.config):
        running.tell_controller(session.config, state)
    else:
        state.conclude()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Count the throughput tests that a worker of pytest-xdist did not measure."""
    running.hear_worker(node, node.config.stash[SESSION])


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Write the section with our tables."""
    terminal.write_summary(terminalreporter, config.stash[SESSION])


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_benchmark_group_stats(
    config: pytest.Config,
) -> Generator[None, benchmarks.BenchmarkGroups, benchmarks.BenchmarkGroups]:
    """Leave our tests out of pytest-benchmark's table, unless its options ask for them."""
    groups = yield
    return groups if benchmarks.asks_for_benchmarks(config) else benchmarks.without_ours(config, groups)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_benchmark_compare_machine_info(
    machine_info: dict[str, Any], compared_benchmark: dict[str, dict[str, Any]]
) -> None:
    """Let pytest-benchmark compare machines without their clock readings. What it writes stays as it is without us."""
    for facts in (machine_info, compared_benchmark["machine_info"]):
        benchmarks.forget_clock_readings(facts)


def _register_names(config: pytest.Config) -> None:
    for kind, hook in (
        ("models", config.hook.pytest_tfperf_models),
        ("pipelines", config.hook.pytest_tfperf_pipelines),
    ):
        for names in hook():
            catalogue.register(kind, names)
