"""The parts of a machine's name, which `Topology.machine` puts together.

Equal hardware has one name, whatever the driver, software, UUIDs or host name; baselines' files bear it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_tfperf.errors import BaselineError

# File systems allow 255 bytes; the suffix of baselines, locks and temporary files needs some of them.
_LONGEST = 180

# Words of a CPU's model that say nothing about its speed, or repeat what another part of the key says.
_CPU_NOISE = re.compile(
    r"""\((?:R|TM|C)\)              # trade marks
      | \b\d+(?:st|nd|rd|th)\ Gen\b  # "13th Gen Intel(R) Core(TM) i9-13900K"
      | @\s*[\d.]+\s*GHz            # the base clock, which the model number implies
      | \b\w+-Core\b               # the whole chip's cores; the usable ones end the key
      | \bwith\ Radeon\b.*
      | \b(?:CPU|Processor|Intel)\b  # Xeon and Core are names that only Intel uses
    """,
    re.IGNORECASE | re.VERBOSE,
)

# A machine's name is a file's name and an option's value on three systems: no separators, no leading dot or dash.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


def is_name(machine: str) -> bool:
    """Whether `machine` can name a file of baselines."""
    return _NAME.fullmatch(machine) is not None


def check_name(machine: str) -> None:
    """Raise BaselineError where `machine` cannot name a file of baselines."""
    if not is_name(machine):
        raise BaselineError(
            f"{machine!r} cannot be a machine's name, because a file is named after it",
            next_step="Use letters, digits, "
            "'.', '_', '+' and '-', starting with a letter or digit, 200 characters at most",
        )


def host_part(cpu_model: str, usable_cores: int) -> str:
    """Model and usable logical cores.

    >>> host_part("Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz", 80)
    'xeon-e5-2698-v4-80c'
    """
    model = _words(_CPU_NOISE.sub(" ", cpu_model)) or _words(cpu_model) or "unknown-cpu"
    return f"{model}-{usable_cores}c"


def nodes_part(count: int, link: str) -> str:
    """How many nodes, and what connects them; "" for one.

    >>> nodes_part(2, "10gbe")
    '2-nodes-10gbe'
    """
    return joined([f"{count}-nodes", link]) if count > 1 else ""


def gpu_part(names: Sequence[str], link_class: str) -> str:
    """Count and name of each model, most frequent first, then the class of the links; "" without GPUs.

    >>> gpu_part(["Tesla P100-SXM2-16GB"] * 8, "nvlink")
    '8x-tesla-p100-sxm2-16gb-nvlink'
    """
    models = Counter(gpu_model(name) for name in names)
    counted = sorted(models.items(), key=lambda item: (-item[1], item[0]))
    return joined([*(f"{count}x-{model}" for model, count in counted), link_class])


def gpu_model(name: str) -> str:
    """One name for one model: drivers from R465 on write "NVIDIA GeForce", older ones "GeForce".

    >>> gpu_model("NVIDIA GeForce RTX 2080 Ti")
    'geforce-rtx-2080-ti'
    """
    return _words(re.sub(r"^NVIDIA\b", "", name)) or "unknown-gpu"


def joined(parts: Iterable[str]) -> str:
    """The parts that are not empty, with dashes; cut where it is too long for a file name."""
    return "-".join(filter(None, parts))[:_LONGEST]


def _words(text: str) -> str:
    # A point stays only inside a number or word: "1g.18gb", "2.5".
    return re.sub(r"(?:[^a-z0-9.]|(?<![a-z0-9])\.|\.(?![a-z0-9]))+", "-", text.lower()).strip("-")
