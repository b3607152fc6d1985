"""How Sphinx makes the pages: `make docs`. Nothing is fetched, so the pages need no network and name no host.

Docstrings are written for a terminal (STYLE: one line of effect, then a paragraph, then `Raises:`); the hook
below turns that last block into a list, because it names several errors on one line, which no extension reads.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # for the module beside this one

import stub_signatures  # noqa: E402

project = "logstore"
author = "the authors of logstore"
version = release = importlib.metadata.version("logstore")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"logstore {release}"
html_copy_source = False
html_show_sourcelink = False

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "undoc-members": False}
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

# Types of the standard library and of ours that are not public have no page to point to.
nitpick_ignore_regex = [("py:.*", ".*")]

#: `Record`s: in a terminal that reads well, to docutils a letter may not follow.
_PLURAL = re.compile(r"(?<!`)`([^`\s]+)`(?=\w)")
_ITEM = re.compile(r"(?P<names>[A-Za-z_][\w., ]*?):\s(?P<text>.*)")


def _list_what_is_raised(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """`Raises:` with its indented items, as a heading and a list."""
    found: list[str] = []
    inside = False
    for line in lines:
        if line.strip() in ("Raises:", "Raises"):
            inside = True
            found += ["**Raises**", ""]
        elif inside and line.startswith(" ") and line.strip():
            if len(line) - len(line.lstrip()) <= 4:
                match = _ITEM.fullmatch(line.strip())
                names = match["names"].split(", ") if match else []
                text = ", ".join(f"``{item}``" for item in names) + f": {match['text']}" if match else line.strip()
                found.append(f"- {text}")
            else:
                found.append(f"  {line.strip()}")
        else:
            if inside and line.strip():
                inside = False
                found.append("")
            found.append(line)
    lines[:] = [_PLURAL.sub(r"`\1`\\ ", line) for line in found] + [""]


def setup(app: Any) -> None:
    app.add_lexer("output", TextLexer)
    app.connect("autodoc-process-docstring", _list_what_is_raised)
    app.connect("autodoc-process-signature", stub_signatures.process)
