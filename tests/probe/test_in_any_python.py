"""The files that run in a user's own Pythons: any from 3.8, with the standard library alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_tfperf.probe import door, entry, frameworks, link, profile, steps
from pytest_tfperf.probe.hook_folder import HookFolder
from pytest_tfperf.revisions import source_hook

PARTS = pytest.mark.parametrize(
    "part",
    [door, entry, steps, link, frameworks, profile, source_hook],
    ids=lambda part: part.__name__.rpartition(".")[2],
)

# Names of the standard library since 3.9 that such code could want.
SINCE_3_9 = {
    *("removeprefix", "removesuffix", "is_relative_to", "with_stem", "pairwise", "batched", "bit_count", "randbytes"),
    *("orig_argv", "stdlib_module_names", "add_note", "to_thread", "cache", "aclosing", "anext", "aiter", "lcm"),
    *("waitstatus_to_exitcode", "nextafter", "cbrt", "EncodingWarning", "ExceptionGroup", "process_cpu_count"),
}


def tree(part: ModuleType) -> ast.AST:
    return ast.parse(Path(str(part.__file__)).read_text(), feature_version=(3, 8))


@PARTS
def test_its_grammar_is_that_of_python_3_8(part: ModuleType) -> None:
    for node in ast.walk(tree(part)):
        assert not isinstance(node, ast.Match | ast.TryStar), ast.unparse(node)


@PARTS
def test_its_annotations_are_not_evaluated(part: ModuleType) -> None:
    """`int | None` is an error in 3.8 where it is evaluated, as in the fields of a dataclass that is asked for them."""
    first = [node for node in ast.walk(tree(part)) if isinstance(node, ast.ImportFrom)]
    assert first[0].module == "__future__"


@PARTS
def test_it_imports_nothing_but_the_standard_library(part: ModuleType) -> None:
    names = [node.module or "" for node in ast.walk(tree(part)) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree(part)) if isinstance(node, ast.Import) for alias in node.names]
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


@PARTS
def test_it_uses_no_name_that_is_younger(part: ModuleType) -> None:
    names = {node.attr for node in ast.walk(tree(part)) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree(part)) if isinstance(node, ast.Name)}
    assert not names & SINCE_3_9


def test_a_python_that_imports_no_framework_pays_for_no_other_module(tmp_path: Path) -> None:
    hook = HookFolder(tmp_path)
    hook.add(entry, "begin", str(tmp_path / "seen"), beside=(steps, link, frameworks))
    hook.add(source_hook, "watch", str(tmp_path / "report"), [str(tmp_path)], {})
    code = "import sys; print('typing' in sys.modules, 'tfperf_entry' in sys.modules)"
    command = [sys.executable, "-I", "-c", code], [sys.executable, "-c", code]
    alone, probed = (
        subprocess.run(each, env=hook.environment(os.environ), capture_output=True, text=True).stdout.split()
        for each in command
    )
    assert (alone[0], probed) == (probed[0], [alone[0], "True"])
