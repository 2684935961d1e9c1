"""The documentation site: README.md and docs/ as they are on GitHub, with the API from its docstrings.

`make docs` builds it into build/site. A warning fails the build, and so does a page that would load anything from
another host.
"""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Final

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock
from sphinx.util.logging import getLogger

import pytest_tfperf.plugin

NAVIGATION: Final = {
    "Start": ["tutorial", "writing-tests", "own-models", "own-scripts", "baselines", "reading-results", "figures"],
    "Every day": ["trial", "pull-requests", "nightly", "history", "cluster"],
    "Reference": ["options", "api", "formats"],
    "How it works": ["statistics", "architecture"],
}
"""The groups of the sidebar and their pages of docs/, in the order in which a newcomer needs them."""

REST: Final = "Project"
"""The group of all pages that no other group names, so that a new page needs no entry here."""

FIXTURES: Final = ("throughput", "gpu_topology", "input_pipeline")

MADE_BY_USERS: Final = {"Workload", "Reads", "Figure", "Tolerance", "PipelineOnly", "FusedBatchNormalization"}
"""The classes whose arguments the API shows. The others are made by the package, and their objects are read."""

MOCKED: Final = ExitStack()
"""Holds stand-ins for what the API's modules import and the site does not need, as long as it is built."""

project = "pytest-tfperf"
author = "The pytest-tfperf developers"
project_copyright = author
release = metadata.version("pytest-tfperf")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# The repository is the source, so that a link between any two pages is the same on GitHub and here. A link to a file
# that is no page downloads it.
root_doc = "README"
include_patterns = ["*.md", "docs/*.md"]
exclude_patterns = [".*", "build", "dist", "pytest_tfperf", "tests"]  # not to be searched for pages
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
default_role = "literal"  # our docstrings write code in single backticks
napoleon_numpy_docstring = False
add_module_names = False
smartquotes_action = "D"  # dashes only: quotation marks belong to code
maximum_signature_line_length = 80

html_theme = "furo"
pygments_dark_style = "monokai"
html_title = f"pytest-tfperf {release}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False

_REQUEST = re.compile(
    r"""(?:\bsrc=|<link\b[^>]*\bhref=|url\(|@import\s)\s*["']?((?:https?:)?//[^"')\s>]+)""", re.IGNORECASE
)
"""What a browser loads by itself, and not when its reader follows a link, from another host."""


def setup(app: Sphinx) -> None:
    """Connect what this file adds to Sphinx."""
    MOCKED.enter_context(mock(["keras", "tensorflow"]))
    for fixture in FIXTURES:  # autodoc describes functions, and pytest has wrapped these in objects of its own
        setattr(pytest_tfperf.plugin, fixture, getattr(pytest_tfperf.plugin, fixture).__wrapped__)
    app.connect("source-read", add_navigation)
    app.connect("object-description-transform", shorten_signature)
    app.connect("build-finished", finish)


def add_navigation(app: Sphinx, page: str, text: list[str]) -> None:
    """Add the navigation to the first page."""
    if page != root_doc:
        return
    groups = {group: [f"docs/{name}" for name in names] for group, names in NAVIGATION.items()}
    named = {root_doc, *(name for names in groups.values() for name in names)}
    groups[REST] = sorted(app.project.docnames - named)
    for group, pages in groups.items():
        entries = "".join(f"{_label(page)} <{page}>\n" for page in pages)
        text[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {group}\n\n{entries}```\n"


def _label(page: str) -> str:
    """Return a page's name in the sidebar: "Writing tests" for docs/writing-tests.md."""
    name = Path(page).name
    return {"api": "API"}.get(name, name.replace("-", " ").capitalize())


def shorten_signature(_app: Sphinx, _domain: str, kind: str, description: addnodes.desc_content) -> None:
    """Leave out the arguments that no user writes: those of fixtures, and of objects that the package makes."""
    (signature, *_) = description.parent.findall(addnodes.desc_signature)
    name = signature["fullname"]
    if name in FIXTURES or (kind in ("class", "exception") and name not in MADE_BY_USERS):
        for part in (*signature.findall(addnodes.desc_parameterlist), *signature.findall(addnodes.desc_returns)):
            signature.remove(part)


def finish(app: Sphinx, error: Exception | None) -> None:
    """Make the first page the folder's, and refuse a site that would load anything from another host."""
    if error is not None:
        return
    shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")
    files = [path for path in sorted(app.outdir.rglob("*")) if path.suffix in (".html", ".css", ".svg")]
    for path in files:
        for url in _REQUEST.findall(path.read_text("utf-8")):
            getLogger(__name__).warning("%s would load %s: the site must load nothing from other hosts", path, url)
