"""A launcher that runs the code of a checkout, and proves that no other checkout's code ran."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import final

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import Devices
from pytest_tfperf.errors import Lack, NotCompared, TfperfError
from pytest_tfperf.revisions.checkout import ENDS_PATH, Checkout, absolute_paths
from pytest_tfperf.revisions.own_code import OwnCode
from pytest_tfperf.revisions.program_sources import SourceWatch
from pytest_tfperf.workers.launcher import Launcher, PreparedCommand
from pytest_tfperf.workers.training_run import TrainingRun
from pytest_tfperf.workers.worker_run import Progress


@final
class CheckoutLauncher:
    """Starts what `local` starts, on the code of a checkout, and proves which code ran.

    Where an editable install, a copy among the installed packages, a variable or a link gives both sides the same
    code, a comparison would pass whatever the change costs. So it is refused. A program's first run proves all of its
    runs in the session; the later ones are not watched, because that takes time.

    Args:
        local: starts workers under an interpreter of the checkout.
        may_be_same, lacking: as in `OwnCode`; `lacking` is the other side's launcher.
        keeps_doubts: whether `doubt` keeps what leaves doubt about a program; else it is an error.
    """

    def __init__(
        self,
        local: Launcher,
        checkout: Checkout,
        *,
        may_be_same: bool = False,
        lacking: CheckoutLauncher | None = None,
        keeps_doubts: bool = False,
    ) -> None:
        self._local = local
        self._checkout = checkout
        other = None if lacking is None else lacking.own_code
        self.own_code: OwnCode = OwnCode(checkout, may_be_same=may_be_same, lacking=other)
        self._keeps_doubts = keeps_doubts
        self._doubts: dict[object, TfperfError | None] = {}  # of each program that was proved

    def doubt(self, command: Command) -> TfperfError | None:
        """Return what leaves doubt that a program ran this side's own code; None for nothing."""
        return self._doubts.get(_key(command))

    def start(self, job: Job, progress: Progress) -> TrainingRun:
        """See `Launcher.start`; raises also as `OwnCode.require_loaded`."""
        run = self._local.start(replace(job, reports_modules=True), progress)
        try:
            self.own_code.require_loaded(run.modules)
        except BaseException:
            run.close()
            raise
        return run

    def prepare_command(self, command: Command, devices: Devices, nodes: int) -> PreparedCommand:
        """See `Launcher.prepare_command`; paths that the command names lead into the checkout.

        Raises:
            NotCompared: the checkout lacks a file that the command names.
            TfperfError: a path inside of other text would lead to the current code, or it runs on several nodes.
        """
        if nodes > 1:
            raise TfperfError(
                f"{command.id}: nothing tells which files a program reads on several nodes, so nothing proves that two "
                "sides are compared",
                next_step="Compare it on one node",
            )
        there = self._in_checkout(command) if self._checkout.moved else command
        prepared = self._local.prepare_command(there, devices, nodes)
        assert prepared.scratch is not None, "a program of this machine has a folder of its own"
        is_proved = _key(command) in self._doubts
        watch = SourceWatch(prepared.scratch, () if is_proved else self._checkout.trees, self._checkout.moved)
        watched = replace(prepared.command, env=watch.environment(prepared.command.env))
        proof = prepared.proof if is_proved else partial(self._proved, command, watch, prepared.command.env)
        return replace(prepared, command=watched, proof=proof)

    @contextmanager
    def _proved(
        self, command: Command, watch: SourceWatch, environment: Mapping[str, str], parent: int
    ) -> Iterator[None]:
        """Watch the files that processes below `parent` read in this block; at its end, require this side's code."""
        with watch.watching(parent):
            yield
        named = [self._checkout.folder / path for path in self._named(command)]
        doubt = self.own_code.require_read(command.id, watch.sources(), named, environment)
        if doubt is not None and not self._keeps_doubts:
            raise doubt
        self._doubts[_key(command)] = doubt

    # The paths of a command

    def _in_checkout(self, command: Command) -> Command:
        folder, name = str(command.cwd), command.id
        argv = [self._moved(word, folder, f"{name}: argument {n}") for n, word in enumerate(command.words)]
        env = {key: self._moved(value, "", f"{name}: the variable {key}") for key, value in command.env.items()}
        relative = self._relative(folder)
        if relative is not None and not (self._checkout.folder / relative).is_dir():
            raise NotCompared(Lack.FOLDER, what=relative, side=self._checkout.name)
        return replace(command, argv=argv, env=env)

    def _moved(self, text: str, folder: str, what: str) -> str:
        """An argument or a variable whose paths of the repository lead into the checkout.

        It may be a list with colons, as in PYTHONPATH, each path perhaps after "name=". Relative paths begin in
        `folder`; "" for absolute paths only.
        """
        return os.pathsep.join(self._moved_part(part, folder, what) for part in self._parts(text, folder))

    def _moved_part(self, text: str, folder: str, what: str) -> str:
        split = self._in_repository(text, folder)
        if split is None:
            self._require_elsewhere(text, what)
            return self._of_environment(text, folder) or text
        before, relative = split
        self._require_elsewhere(before, what)
        there, here = self._checkout.folder / relative, self._checkout.repository / relative
        is_relative = not text.removeprefix(before).startswith(os.sep)
        if there.exists():
            stays = is_relative and self._relative(folder) is not None
            return text if stays else before + str(there)
        if self._checkout.is_ignored(here):
            return before + str(here)  # data and environments, which are in no commit
        if here.exists():
            raise NotCompared(Lack.FILE, what=relative, side=self._checkout.name)
        return before + str(there)  # the program will write it, on each side beside that side's code

    def _of_environment(self, text: str, folder: str) -> str:
        """The absolute path of ".venv/bin/python", which only the user's own folder has; "" for any other text."""
        here = os.path.normpath(Path(folder).resolve() / text) if folder and os.sep in text else ""
        if not os.path.exists(here) or not Path(here).is_relative_to(self._checkout.repository):  # noqa: PTH110
            return ""  # it may be too long for a Path
        there = self._checkout.folder / Path(here).relative_to(self._checkout.repository)
        return "" if there.exists() else here

    def _parts(self, text: str, folder: str) -> list[str]:
        """The paths of a list, and the texts between the colons of anything else."""
        return [text] if self._in_repository(text, folder) else text.split(os.pathsep)

    def _in_repository(self, text: str, folder: str) -> tuple[str, Path] | None:
        """Split off a path of the repository: the text before it, and the path from the root; None without one.

        A word without a slash must be a file: "train" is more often a program's command than a folder. An absolute path
        need not exist: the program may write it.
        """
        if text == sys.executable:
            return None
        for before in ("", text[: text.rfind("=") + 1]):
            path = text.removeprefix(before)
            is_absolute = path.startswith(os.sep)
            if not path or not (is_absolute or folder):
                continue
            place = os.path.join(folder, path)  # noqa: PTH118  # a program's text may be too long for a Path
            exists = (os.sep in path and os.path.exists(place)) or os.path.isfile(place)  # noqa: PTH110, PTH113
            relative = self._relative(place) if exists or is_absolute else None
            if relative is not None and (exists or not re.search(f"[{ENDS_PATH}]", str(relative))):
                slashes = len(path) - len(path.lstrip(os.sep))
                return before + os.sep * (slashes - 1), relative  # "file:///repo/x" keeps its two
        return None

    def _require_elsewhere(self, text: str, what: str) -> None:
        """Refuse text with a path of the repository in it, which would lead both sides to the current code."""
        for path in absolute_paths(text, self._checkout.repository):
            relative = self._relative(path)
            if relative is not None and not self._checkout.is_ignored(self._checkout.repository / relative):
                raise TfperfError(
                    f"{what} has {path} inside of other text, so both sides would run the current code: "
                    f"{self._checkout.name} is in {self._checkout.folder}",
                    next_step="Write a path that is relative to where the command runs, which is cwd=; or give the "
                    "path as an argument or a variable of its own",
                )

    def _relative(self, place: str) -> Path | None:
        """The path from the repository's root; None where it lies elsewhere, or in an environment of Python."""
        real = Path(place).resolve() if place else Path.cwd().resolve()
        return real.relative_to(self._checkout.repository) if self._checkout.is_current(real) else None

    def _named(self, command: Command) -> Iterator[Path]:
        """The paths of the repository that the command names, from its root."""
        texts = [(word, str(command.cwd)) for word in command.words] + [(value, "") for value in command.env.values()]
        for text, folder in texts:
            split = (self._in_repository(part, folder) for part in self._parts(text, folder))
            yield from (relative for _, relative in filter(None, split))


def _key(command: Command) -> object:
    """A program: tests that run the same one may read its output in other ways."""
    return command.words, tuple(command.env.items()), command.cwd
