"""The next step where git, pip or this package can't write to a disk, or git can't check a commit out."""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path
from typing import Final

from pytest_tfperf.reports.numbers import size
from pytest_tfperf.revisions.git import run_git

# In the words of the C library, which git, pip and uv repeat; git writes "unable to write file" of a full disk.
_FULL: Final = re.compile(r"No space left on device|[Qq]uota exceeded|unable to write|write error")
_FORBIDDEN: Final = re.compile(r"Read-only file system|Permission denied(?! \()|Operation not permitted")
_OF_A_SERVER: Final = re.compile(
    r"could not read (Username|Password)|terminal prompts disabled|Authentication failed|Permission denied \(|"
    r"Host key verification|Could not read from remote|could not resolve|unable to access|submodule",
    re.IGNORECASE,
)


def after_os_error(error: OSError, otherwise: str) -> str:
    """The next step after an error of the system; `otherwise` is another way, as in "name another folder"."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"{'Free some space' if is_full else 'Make it writable'}, {otherwise}"


def after_installer(output: str, otherwise: str) -> str:
    """The next step after pip or uv failed; `otherwise` unless the disk was the reason."""
    if _FULL.search(output):
        return "Free space on that disk and the one of temporary files, and try it again"
    return otherwise


def after_checkout(errors: str, repository: Path, commit: str, folder: Path) -> str:
    """The next step after `git worktree add` or `git submodule update` failed with these errors."""
    if _FULL.search(errors):
        return f"{_space(repository, commit, folder.parent)}Free space there, or use another folder"
    if _FORBIDDEN.search(errors):
        return (
            f"Git writes the files to {folder.parent}, and a record of them to the repository's .git: make both "
            f"writable, or run in a clone of your own: git clone {repository} FOLDER"
        )
    by_hand = f"git worktree add --detach /tmp/base {commit[:12]}"
    if _OF_A_SERVER.search(errors):
        return (
            "Git must be able to check it out, with its submodules, without asking for a password; try it: "
            f"{by_hand} && git -C /tmp/base submodule update --init --recursive"
        )
    return f"Try it by hand: {by_hand}"


def _space(repository: Path, commit: str, folder: Path) -> str:
    """What the commit's files take, and what is free, where that explains the failure; "" otherwise."""
    listed = run_git(repository, "ls-tree", "-r", "--long", commit).stdout
    needed = sum(map(int, re.findall(r"^\S+ blob \S+ +(\d+)\t", listed, re.MULTILINE)))
    free = shutil.disk_usage(folder).free
    if free >= needed:
        return ""
    return f"The files of {commit[:12]} take {size(needed)}, and {folder} has {size(free)} left. "
