"""Settings of Sphinx for the site; `make docs` calls it by make_site.py, which first lays out the pages."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst.roles import register_generic_role
from sphinx.application import Sphinx

import coterie

project = "coterie"
author = "The coterie authors"
copyright = "the coterie authors, Apache-2.0"  # noqa: A001 - so it is called
version = release = coterie.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
source_suffix = {".md": "markdown"}

# Pages are written for a forge: anchors are made of headings as there.
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]

# Docstrings are plain text in which single backticks mean code.
register_generic_role("plain_code", nodes.literal)
default_role = "plain_code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
add_module_names = False

html_theme = "furo"
html_title = f"coterie {coterie.__version__}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"source_edit_link": "", "source_view_link": ""}
smartquotes = False
suppress_warnings = ["myst.header"]  # how deep a heading is, is a matter of taste
html_static_path: list[str] = []


def own_words(_app: Sphinx, _what: str, name: str, thing: Any, _options: Any, lines: list[str]) -> None:
    """Keep our own docstrings, whose bars mean a size; leave out those of a value of another library."""
    if getattr(thing, "__module__", "coterie").startswith("torch"):
        lines.clear()
    lines[:] = [re.sub(r"\|(?=\w[^|]*\|)", r"\|", line) for line in lines]


def setup(app: Sphinx) -> None:
    """Connect what is done to docstrings."""
    app.connect("autodoc-process-docstring", own_words)
