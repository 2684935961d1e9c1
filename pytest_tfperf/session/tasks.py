"""Makes the task of a call: what is measured, what starts it, and what the result is judged against."""

from __future__ import annotations

from pytest_tfperf.bench.one_run import Side
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.reference import floor_rate, memory_rate, reference_for
from pytest_tfperf.session.earlier_sessions import EarlierSessions
from pytest_tfperf.session.launchers import Launchers
from pytest_tfperf.stores.baselines import BaselineStore


class TaskMaker:
    """Makes tasks.

    Args:
        settings: what the user asked for.
        launchers: start this side, and the reference environments.
        baselines: the files that results are judged against.
        earlier: stand in for them where a test has no row.
    """

    def __init__(
        self, settings: Settings, launchers: Launchers, baselines: BaselineStore, earlier: EarlierSessions
    ) -> None:
        self._settings = settings
        self._launchers = launchers
        self._baselines = baselines
        self._earlier = earlier

    def task(
        self,
        test: str,
        index: int,
        workload: Subject,
        topology: Topology,
        tolerance: Tolerance | None,
        plan: Plan,
        name: str = "",
    ) -> Task:
        """The task of one call: everything that a measurement needs.

        Args:
            test: pytest's node id.
            index: which of the test's calls it is, from 0.
            workload, topology, plan: what to measure.
            tolerance: the test's own; None for the row's, or the default.
            name: what messages call the workload; "" for its id.

        Raises:
            BaselineError: the machine's file can't be read whole.
        """
        settings, references = self._settings, self._launchers.references
        key = Key(workload.id, topology.shape)
        rows, published = self._baselines.load(topology.machine), self._baselines.published_like(key)
        # The nightly gate requires rows, so nothing stands in for one.
        is_provisional = key not in rows and not settings.require_baseline
        reference = reference_for(
            rows,
            published,
            topology.machine,
            key,
            gpu_fp32_tflops=floor_rate(topology),
            gpu_memory_gb_per_sec=memory_rate(topology),
            provisional=self._earlier.provisional_baselines(topology) if is_provisional else {},
        )
        may_move = not isinstance(workload, Command) or workload.runs_this_python
        may_move = may_move and reference.is_own_row
        other = references.launcher_for(reference.baseline) if references and may_move else None
        return Task(
            test=test,
            index=index,
            topology=topology,
            plan=plan,
            side=Side(workload=workload, launcher=self._launchers.here, slowdown=settings.inject_slowdown, name=name),
            reference_side=None if other is None else Side(workload=workload, launcher=other, name=name),
            reference=reference,
            tolerance=reference.tolerance(tolerance, Tolerance.of(settings.tolerance)),
        )
