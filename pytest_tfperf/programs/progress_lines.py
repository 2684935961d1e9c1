"""Reads the bars of tqdm, which are drawn over one another."""

from __future__ import annotations

import re

from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, loss_in, shown

_MOST_OF_A_LINE = 640  # bars are shorter

# tqdm/tqdm, std.py, format_meter: "Epoch 0:  45%|████▌     | 45/100 [00:12<00:15,  3.61it/s, loss=0.5]".
_TQDM = re.compile(
    r"^(?P<title>[^|]{0,200}?)\s{0,9}\d{1,3}%\|[^|]{0,400}\|\s{0,9}(?P<step>\d{1,12})/(?P<total>\d{1,12})\s"
    r"\[[\d:]{4,12}<[^,\]]{1,20},\s{0,9}(?:\?|[\d.]{1,12})(?:it/s|s/it)"
)


class TqdmLines:
    """Reads the bars of tqdm, of one title, apart from its digits, and one total.

    A bar of another title or total, such as that of evaluation or of a download, is refused.
    """

    def __init__(self) -> None:
        self._first: tuple[str, str] | None = None
        self._first_line = ""

    def read(self, line: str) -> Reading | None:
        """The reading of a bar; None for any other line.

        Raises:
            Unreadable: a second bar advances.
        """
        bar = _TQDM.search(line) if len(line) <= _MOST_OF_A_LINE else None
        if bar is None or bar["step"] == "0":
            return None
        key = (re.sub(r"[\d.]+", "", bar["title"]).strip(), bar["total"])
        if self._first is None:
            self._first, self._first_line = key, line
        if key != self._first:
            title = re.escape(self._first[0].strip(": "))
            raise Unreadable(
                f"two progress bars advance: {shown(self._first_line)!r} and {shown(line)!r}",
                "give a pattern that finds that of training, as "
                rf"reads=Reads(pattern=r'^{title}.*\| *(?P<step>\d+)/'), or measure it by its steps, without reads",
            )
        return Reading(Kind.STEP, float(bar["step"]), loss=loss_in(line))
