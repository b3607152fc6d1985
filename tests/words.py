"""Refuses the words that docs/vocabulary.md says are not to be used: `python tests/words.py`, part of `make lint`.

The page's table "Words not to use" is the only list. This module alone knows how a file is divided: into prose
(comments, docstrings, the text of pages), messages (other strings) and names (identifiers). Files are read as
text and never imported, Cython's too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/vocabulary.md"
TITLE = "## Words not to use"
KINDS = ("prose", "messages", "names")
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".md", ".toml", ".cfg", "Makefile")

#: Files that must name a refused word: the page, this tool's test, and what keeps old names importable.
EXEMPT = (
    PAGE,
    "CHANGELOG.md",
    "news/",
    "src/logstore/renamed.py",
    "tests/project/test_messages.py",
    "tests/project/test_words.py",
    "tests/test_former_names.py",
    "tests/test_renamed.py",
)
#: At the end of a line that keeps a former name for one release: the line is not searched.
FORMER = "# former name"
#: Written by a generator from Kafka's own names.
GENERATED = ("src/logstore/protocol/generated/",)

_STRING = r"[bfruBFRU]{0,2}(?:%s)" % "|".join(  # noqa: UP031  # braces stand for themselves
    (r'"""(?:\\.|[^\\])*?"""', r"'''(?:\\.|[^\\])*?'''", r'"(?:\\.|[^"\\\n])*"', r"'(?:\\.|[^'\\\n])*'")
)
_TOKEN = re.compile(rf"(?P<comment>#[^\n]*)|(?P<string>{_STRING})", re.DOTALL)
_FENCE = re.compile(
    r"^ *(?P<ticks>```+)(?P<language>[^\n`]*)\n(?P<code>.*?)^ *(?P=ticks) *$", re.MULTILINE | re.DOTALL
)
_INLINE = re.compile(r"(?P<ticks>`+)(?P<code>.+?)(?P=ticks)", re.DOTALL)
_TARGET = re.compile(r"\]\([^()\s]*\)")
_NAME = re.compile(r"[A-Za-z_]\w*")


class Refused(NamedTuple):
    """One line of the table: a pattern, the kinds of text that it is searched in, and what to use."""

    pattern: str
    kinds: frozenset[str]
    use: str


class Words:
    """A table as one expression for each kind: most files have no refused word, and are searched once."""

    def __init__(self, table: Iterable[Refused]) -> None:
        self._uses: dict[str, list[str]] = {}
        self._searched: dict[str, re.Pattern[str]] = {}
        for kind in KINDS:
            entries = [refused for refused in table if kind in refused.kinds]
            self._uses[kind] = [refused.use for refused in entries]
            groups = "|".join(f"(?P<_{n}>{refused.pattern})" for n, refused in enumerate(entries)) or "(?!)"
            if kind == "names":
                # Part by part: `inbox` is refused in `_read_inbox`, `Bell` not in `Label`.
                self._searched[kind] = re.compile(rf"(?=[A-Za-z])(?<![A-Za-z0-9])(?:{groups})(?![A-Za-z0-9])")
            else:
                spaced = groups.replace(" ", r"\s+")
                self._searched[kind] = re.compile(rf"(?=\w)\b(?:{spaced})(?!\w)", re.IGNORECASE)

    def finds(self, kind: str, text: str) -> Iterator[tuple[int, str, str]]:
        """Yield (position, word, what to use) for every refused word in text of a kind."""
        for found in self._searched[kind].finditer(text):
            word = " ".join(found[0].split())
            if kind == "names":
                line = text.rfind("\n", 0, found.start()) + 1
                word = next(name[0] for name in _NAME.finditer(text, line) if name.end() >= found.end())
            yield found.start(), word, self._uses[kind][int((found.lastgroup or "")[1:])]


def read_table(page: str) -> list[Refused]:
    """Return the lines of the page's table.

    Raises:
        ValueError: the table is missing, or a line of it has an unknown kind or no word to use.
    """
    _, title, section = page.partition(f"{TITLE}\n")
    table = []
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 3 or not cells[0].startswith("`"):
            continue
        pattern, kinds, use = cells[0].strip("`"), frozenset(cells[1].split(", ")), cells[2]
        if kinds == {"everywhere"}:
            kinds = frozenset(KINDS)
        if not kinds <= set(KINDS) or not use:
            raise ValueError(f"{PAGE}: `{pattern}` needs kinds of text ({', '.join(KINDS)}) and a word to use")
        table.append(Refused(pattern, kinds, use))
    if not title or not table:
        raise ValueError(f"{PAGE}: no table below {TITLE!r}")
    return table


def divide(path: str, text: str) -> dict[str, str]:
    """Return text of each kind: the file with everything else blanked, so that positions stay."""
    blank = re.sub(r"[^\n]", " ", text)
    parts = {kind: list(blank) for kind in KINDS}
    if path.endswith(".md"):
        _divide_page(text, parts)
    else:
        _divide_code(text, 0, len(text), parts)
    return {kind: "".join(chars) for kind, chars in parts.items()}


def _divide_page(text: str, parts: dict[str, list[str]]) -> None:
    begin = 0
    for fence in [*_FENCE.finditer(text), None]:
        end = fence.start() if fence else len(text)
        part = _TARGET.sub(lambda found: " " * len(found[0]), text[begin:end])
        for inline in _INLINE.finditer(part):
            first, last = begin + inline.start(), begin + inline.end()
            parts["names"][first:last] = text[first:last]
            part = part[: inline.start()] + " " * (last - first) + part[inline.end() :]
        parts["prose"][begin:end] = part
        # Other languages quote what a program prints, or are no code of ours.
        if fence and fence["language"].split(",")[0].strip() in ("python", "py", "cython"):
            _divide_code(text, *fence.span("code"), parts)
        begin = fence.end() if fence else end


def _divide_code(text: str, begin: int, end: int, parts: dict[str, list[str]]) -> None:
    at = begin
    for token in _TOKEN.finditer(text, begin, end):
        parts["names"][at : token.start()] = text[at : token.start()]
        at = token.end()
        before = text[text.rfind("\n", 0, token.start()) + 1 : token.start()]
        is_prose = token["comment"] or (not before.strip() and token[0].lstrip("bfruBFRU").startswith('"""'))
        parts["prose" if is_prose else "messages"][token.start() : at] = token[0]
    parts["names"][at:end] = text[at:end]


def complaints(path: str, text: str, words: Words) -> list[str]:
    """Return one line for each refused word: file and line, the word, and what to use."""
    lines = text.split("\n")
    found = sorted(
        (text.count("\n", 0, position) + 1, word, use)
        for kind, part in divide(path, text).items()
        for position, word, use in words.finds(kind, part)
    )
    found = [each for each in found if not lines[each[0] - 1].endswith(FORMER)]
    return [f"{path}:{line}: {word!r}: use {use}" for line, word, use in found]


def main() -> int:
    words = Words(read_table((ROOT / PAGE).read_text("utf-8")))
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [path for path in listed if path.endswith(SUFFIXES) and not path.startswith((*EXEMPT, *GENERATED))]
    found = [
        complaint
        for path in paths
        if (ROOT / path).exists()
        for complaint in complaints(path, (ROOT / path).read_text("utf-8"), words)
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
