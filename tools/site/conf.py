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
from textwrap import shorten
from typing import Final

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock
from sphinx.util.logging import getLogger

import pytest_tfperf.plugin

NAVIGATION: Final = {
    "Start": ["install", "tutorial", "writing-tests", "own-scripts", "own-models", "baselines", "reading-results"],
    "Every day": [
        *("acknowledged", "figures", "trial", "pull-requests", "github-action", "nightly", "notifications", "history"),
        "cluster",
    ],
    "Reference": ["options", "api", "formats", "published-baselines"],
    "How it works": ["statistics", "architecture"],
}
"""The groups of the side bar and their pages of docs/, in the order in which a newcomer needs them."""

REST: Final = "Project"
"""The group of all pages that no other group names, so that a new page needs no entry here."""

LONGEST: Final = 50
"""A title with more characters is cut before its colon in the side bar, where it would take three lines."""

ALSO_SEARCHED: Final = {
    "acknowledged": ["mute", "ignore", "snooze", "expected slowdown", "expected regression", "known regression"],
    "baselines": ["accept a slowdown"],
    "cluster": ["distributed training", "multi-node", "Slurm", "MPI", "Ray", "Kubernetes", "Horovod"],
    "figures": ["GPU memory", "start-up time"],
    "history": ["dashboard", "database", "SQLite", "PostgreSQL"],
    "install": ["CUDA", "driver"],
    "nightly": ["self-hosted runner", "unattended", "schedule", "cron"],
    "notifications": ["alert", "webhook", "GitHub issue"],
    "options": ["configuration", "settings", "environment variables", "command line"],
    "own-scripts": ["Lightning", "Hugging Face", "training script"],
    "pull-requests": ["bisect", "branch"],
    "reading-results": ["flaky", "noise", "too noisy", "TOO_NOISY", "NO_BASELINE", "REGRESSED", "exit status"],
    "statistics": ["false positive", "confidence interval"],
    "trial": ["flaky", "false alarm"],
}
"""Words that people search for and the titles of the pages with the answers lack."""

FIXTURES: Final = ("throughput", "gpu_topology", "input_pipeline")

MADE_BY_USERS: Final = {"Workload", "Reads", "Figure", "Tolerance", "PipelineOnly", "FusedBatchNormalization"}
"""The classes whose arguments the API shows. The others are made by the package, and their objects are read."""

MOCKED: Final = ExitStack()
"""Holds stand-ins for what the API's modules import and the site does not need, as long as it is built."""

project = "pytest-tfperf"
author = "The pytest-tfperf developers"
project_copyright = author
release = metadata.version("pytest-tfperf")
about = metadata.metadata("pytest-tfperf")
addresses = dict(entry.split(", ") for entry in about.get_all("Project-URL") or ())

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
html_baseurl = addresses["Documentation"]
html_favicon = "favicon.svg"
html_search_scorer = str(Path(__file__).with_name("scorer.js"))  # relative to the working folder otherwise
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False

_REQUEST = re.compile(
    r"""(?:\bsrc=|<link\b[^>]*\bhref=|url\(|@import\s)\s*["']?((?:https?:)?//[^"')\s>]+)""", re.IGNORECASE
)
"""What a browser loads by itself, and not when its reader follows a link, from another host."""

_BADGE = re.compile(r"\[!\[[^]]*\]\(https?:[^)]*\)\]\([^)]*\)\s*")
"""A picture from another host with a link: README.md shows on GitHub what state the project is in."""


def setup(app: Sphinx) -> None:
    """Connect what this file adds to Sphinx."""
    MOCKED.enter_context(mock(["keras", "tensorflow"]))
    for fixture in FIXTURES:  # autodoc describes functions, and pytest has wrapped these in objects of its own
        setattr(pytest_tfperf.plugin, fixture, getattr(pytest_tfperf.plugin, fixture).__wrapped__)
    app.connect("source-read", change_first_page)
    app.connect("doctree-read", describe)
    app.connect("html-page-context", set_canonical_address)
    app.connect("object-description-transform", shorten_signature)
    app.connect("build-finished", finish)


def change_first_page(app: Sphinx, page: str, text: list[str]) -> None:
    """Add the navigation to the first page, and leave out its badges."""
    if page != root_doc:
        return
    text[0] = _BADGE.sub("", text[0])
    groups = {group: [f"docs/{name}" for name in names] for group, names in NAVIGATION.items()}
    named = {root_doc, *(name for names in groups.values() for name in names)}
    groups[REST] = sorted(app.project.docnames - named)
    for group, names in groups.items():
        entries = [_entry(app.srcdir, name) for name in names]
        if group == REST:
            entries += [f"Repository <{addresses['Source']}>", f"Issues <{addresses['Issues']}>"]
        text[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {group}", "", *entries, "```\n"])


def _entry(folder: Path, page: str) -> str:
    """Return a page's line in the navigation. The side bar shows its title, unless the line has other words."""
    title = (folder / f"{page}.md").read_text("utf-8").partition("\n")[0].removeprefix("# ")
    before, colon, _ = title.partition(":")
    return f"{before} <{page}>" if colon and len(title) > LONGEST else page


def describe(app: Sphinx, doctree: nodes.document) -> None:
    """Add to a page what search engines show of it, and the words by which the site's own search finds it, too."""
    page = app.env.docname
    paragraph = next(doctree.findall(nodes.paragraph)).astext()
    text = about["Summary"] if page == root_doc else shorten(paragraph, 160, placeholder=" ...")
    # Without an identifier, the entry leads to the page as any other hit does, and is not a second one.
    words = [("single", word, "", "main", None) for word in ALSO_SEARCHED.get(Path(page).name, ())]
    terms = " ".join(word for _, word, *_ in words).split()
    doctree.insert(0, nodes.meta(name="description", content=text))
    doctree.insert(0, nodes.meta(name="keywords", content=",".join(terms)))  # found beside other words
    doctree.insert(0, addnodes.index(entries=words))


def set_canonical_address(_app: Sphinx, page: str, _template: str, context: dict[str, object], _tree: object) -> None:
    """Give the first page the folder's address: it is there twice."""
    if page == root_doc:
        context["pageurl"] = html_baseurl


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
            if url.startswith(html_baseurl):  # the canonical address, which no browser loads
                continue
            getLogger(__name__).warning("%s would load %s: the site must load nothing from other hosts", path, url)
