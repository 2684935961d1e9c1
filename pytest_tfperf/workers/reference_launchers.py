"""Which launcher starts a baseline's workload in its reference environment, and why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.launcher import Launcher
from pytest_tfperf.workers.reference_environment import Missing, ReferenceEnvironment, check


class ReferenceLaunchers:
    """The reference environments that a session's baselines name; one for a session.

    Args:
        find: the environment that serves a baseline, or why there is none.
        launch: a launcher that starts workers in an environment.
        root: pytest's rootdir.
    """

    def __init__(
        self,
        find: Callable[[Baseline], ReferenceEnvironment | Missing],
        launch: Callable[[ReferenceEnvironment], Launcher],
        root: Path,
    ) -> None:
        self._find = find
        self._launch = launch
        self._root = root
        self._launchers: dict[ReferenceEnvironment, Launcher] = {}
        self._unusable: dict[ReferenceEnvironment, Missing] = {}
        self._unknown: dict[tuple[ReferenceEnvironment, str], str] = {}

    def check(self, rows: Iterable[Baseline]) -> list[str]:
        """Try the environments of these baselines, each once: it takes as long as importing TensorFlow.

        Returns what is missing, one sentence for each reason with the number of baselines that it concerns; those are
        judged without a reference environment.
        """
        served: dict[ReferenceEnvironment, list[Baseline]] = {}
        missing: Counter[str] = Counter()
        for row in rows:
            found = self._find(row)
            if isinstance(found, Missing):
                missing[str(found)] += 1
            else:
                served.setdefault(found, []).append(row)
        for environment, of in served.items():
            missing.update(self._tried(environment, of))
        return [f"{count} baselines have no reference environment: {why}" for why, count in missing.items()]

    def launcher_for(self, row: Baseline | None, workload: Workload) -> Launcher | None:
        """The launcher of the environment that serves a baseline; None where there is none that knows the workload."""
        if row is None or not row.is_measured:
            return None
        found = self._find(row)
        if isinstance(found, Missing) or found in self._unusable or (found, workload.id) in self._unknown:
            return None
        if found not in self._launchers:
            self._launchers[found] = self._launch(found)
        return self._launchers[found]

    def _tried(self, environment: ReferenceEnvironment, rows: list[Baseline]) -> Counter[str]:
        workloads = {}
        for row in rows:
            try:
                workloads[row.key.workload] = Workload.parse(row.key.workload)
            except TfperfError:  # a row of an own model that is not registered any more: its test will say so
                continue
        result = check(environment, workloads.values(), self._root)
        if result.problem is not None:
            self._unusable[environment] = result.problem
            return Counter({str(result.problem): len(rows)})
        self._unknown |= {(environment, id): why for id, why in result.unknown.items()}
        return Counter(f"{id} is unknown to {environment.name}: {why}" for id, why in result.unknown.items())
