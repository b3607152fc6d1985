"""Lists the rows of docs/rows.md with what proves each of them.

A proof is a test or benchmark marked ``@pytest.mark.row("S2")``; a marker may name several rows. A test that shows
a part of a row names it, ``@pytest.mark.row("M2", part="one process")``; parts are listed behind the proofs of the
whole row. An example proves nothing by itself, but through a test that runs it. Files are parsed, never
imported, so the list needs nothing but Python: ``python tests/rows.py [--only S1,S2] [--check S1,S2]``.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MARKED = ("tests", "benchmarks")

_ROW = re.compile(r"^\|\s*([A-Z]\d+)\s*\|\s*(.+?)\s*\|\s*$")


class Proof(NamedTuple):
    """One claim that a row is shown: which row, and where."""

    row: str
    path: Path
    line: int
    name: str  #: of the test, or empty for a whole file
    part: str = ""  #: of the row that is shown; empty: all of it


class UnreadableMarkerError(ValueError):
    """A `row` marker whose ids, or whose part, are not written out as strings."""


def read_rows(page: Path = ROOT / "docs" / "rows.md") -> dict[str, str]:
    """Ids and titles, in the order of the page."""
    rows: dict[str, str] = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        if match := _ROW.match(line):
            row, title = match.groups()
            if row in rows:
                raise ValueError(f"{page}: {row} is listed twice")
            rows[row] = title
    return rows


def marked(path: Path, source: str | None = None) -> Iterator[Proof]:
    """Every id in a `row` marker of one file, with the innermost test or class around it."""
    text = path.read_text(encoding="utf-8") if source is None else source
    yield from _markers(ast.parse(text, str(path)), path, "")


def _markers(node: ast.AST, path: Path, name: str) -> Iterator[Proof]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        name = f"{name}.{node.name}" if name else node.name
    if _is_row_marker(node):
        assert isinstance(node, ast.Call)
        part = _part(node)
        if not node.args or part is None:
            raise UnreadableMarkerError(f"{path}:{node.lineno}: a row marker takes ids, and a part written out")
        for argument in node.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise UnreadableMarkerError(f"{path}:{node.lineno}: a row id is a string written out")
            yield Proof(argument.value, path, node.lineno, name, part)
    for child in ast.iter_child_nodes(node):
        yield from _markers(child, path, name)


def _part(marker: ast.Call) -> str | None:
    """The part that a marker names, "" without one; None if it cannot be read."""
    match marker.keywords:
        case []:
            return ""
        case [ast.keyword(arg="part", value=ast.Constant(value=str(part)))] if part:
            return part
    return None


def _is_row_marker(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="row", value=ast.Attribute(attr="mark"))):
            return True
    return False


def collect(root: Path = ROOT) -> list[Proof]:
    """The proofs of the whole project, in the order of files and lines."""
    proofs: list[Proof] = []
    for folder in MARKED:
        for path in sorted((root / folder).rglob("*.py")):
            proofs += marked(path)
    return proofs


def _ids(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _places(proofs: Iterable[Proof], root: Path) -> list[str]:
    """What is printed of the proofs of one row: those of the whole row first, then part by part."""
    whole_first = sorted(proofs, key=lambda p: p.part)
    places = (
        f"{f'[{p.part}] ' if p.part else ''}{p.path.relative_to(root)}{'::' + p.name if p.name else ''}"
        for p in whole_first
    )
    return list(dict.fromkeys(places))


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="List the rows of docs/rows.md with what proves each of them.")
    parser.add_argument("--only", type=_ids, metavar="S1,S2", help="list these rows only")
    parser.add_argument("--check", type=_ids, metavar="S1,S2", help="exit 1 if one of these has no proof")
    options = parser.parse_args(arguments)
    rows = read_rows(root / "docs" / "rows.md")
    if unknown := [row for row in [*(options.only or ()), *(options.check or ())] if row not in rows]:
        parser.error(f"no such row: {', '.join(unknown)}")

    proofs: dict[str, list[Proof]] = defaultdict(list)
    for proof in collect(root):
        proofs[proof.row].append(proof)
    shown = options.only or options.check or list(rows)
    for row in dict.fromkeys(shown):
        first, *others = _places(proofs[row], root) or ["-"]
        print(f"{row:<4} {rows[row]:<76} {first}")
        for other in others:
            print(f"{'':<81} {other}")
    whole = sum(1 for row in dict.fromkeys(shown) if not all(proof.part for proof in proofs[row]))
    in_part = sum(1 for row in dict.fromkeys(shown) if proofs[row]) - whole
    more = f", {in_part} more of a part" if in_part else ""
    print(f"{whole} of {len(dict.fromkeys(shown))} rows have a proof{more}")

    failed = False
    for proof in (p for row, places in proofs.items() if row not in rows for p in places):
        print(f"{proof.path.relative_to(root)}:{proof.line}: no such row: {proof.row}", file=sys.stderr)
        failed = True
    if missing := [row for row in options.check or () if not proofs[row]]:
        print(f"without proof: {', '.join(missing)}", file=sys.stderr)
        failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
