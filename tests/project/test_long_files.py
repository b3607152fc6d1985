"""A file above 500 lines has one subject, and its docstring names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SRC = ROOT / "src"
MOST_LINES = 500

#: Long file -> the noun that keeps it whole: it stands in the first paragraph of the file's docstring.
NOUNS = {
    "_segment.pyx": "segment",
    "_segment_index.pyx": "segment file",
    "accumulator/_batcher.pyx": "batcher",
    "accumulator/_partition_batches.pyx": "batches of one partition",
    "batch/_batch.pyx": "record batch",
    "batch/_codec.pyx": "compression",
    "batch/_compaction_filter.pyx": "compaction",
    "batch/_encode.pyx": "encoder",
    "broker/_loop.pyx": "loop",
    "client/consumer.py": "consumer",
    "columns/_builder.pyx": "tables",
    "columns/_export.pyx": "arrow columns",
    "columns/_import.pyx": "arrow arrays",
    "columns/_values.pyx": "decoders",
    "config/schema.py": "settings",
    "errors.py": "errors",
    "groups/membership/classic.py": "member",
    "io/_files.pyx": "file operations",
    "log/_partition_log.pyx": "partition log",
    "log/append/append.py": "append",
    "log/log.py": "log",
    "log/read/live_reader.py": "reader",
    "log/read/reader.py": "reader",
    "log/recovery/recovery.py": "recovery",
    "log/replica.py": "replicas",
    "log/state.py": "state",
    "log/tools/verify.py": "verification",
    "log/transactions.py": "transactions",
    "remote/backend/fetching.py": "consumer",
    "remote/network/connection.py": "connection",
    "remote/produce/sending.py": "sender",
    "store/admin/kafka_directories.py": "kafka directory",
    "store/catalog/topics.py": "topics",
    "store/store.py": "store",
    "testing/conformance/backends.py": "suite",
    "testing/conformance/replicas.py": "set of rules",
}

_DOCSTRING = re.compile(r'(?:\s*#[^\n]*\n)*\s*"""(.*?)(?:\n\n|""")', re.DOTALL)


def is_generated(path: Path) -> bool:
    return "generated" in path.parts


def problems(package: Path, nouns: Mapping[str, str]) -> list[str]:
    """Return one line for each long file without its noun, and for each noun without its long file."""
    found, long_files = [], set()
    for path in sorted(package.rglob("*")):
        if path.suffix not in (".py", ".pyx", ".pxd") or is_generated(path.relative_to(package)):
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines <= MOST_LINES:
            continue
        name = path.relative_to(package).as_posix()
        long_files.add(name)
        docstring = _DOCSTRING.match(text)
        paragraph = " ".join(docstring[1].lower().split()) if docstring else ""
        if name not in nouns:
            found.append(f"{name} has {lines} lines: divide it, or name here the one noun that keeps it whole")
        elif not re.search(rf"\b{re.escape(nouns[name])}\b", paragraph):
            found.append(f"{name}: its first paragraph does not say {nouns[name]!r}")
    return found + [f"{name} has no more than {MOST_LINES} lines" for name in sorted(set(nouns) - long_files)]


def test_a_long_file_names_the_noun_that_keeps_it_whole() -> None:
    found = problems(SRC / "logstore", NOUNS)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "nouns", "expected"),
    [
        ('"""Keys of a log."""\n' + "x = 1\n" * 500, {"keys.py": "keys"}, []),
        ('# header\n"""Keys of\na log."""\n' + "x = 1\n" * 500, {"keys.py": "keys of a log"}, []),
        ('"""Keys."""\n' + "x = 1\n" * 500, {}, ["keys.py has 501 lines: divide it"]),
        ('"""Monkeys.\n\nKeys."""\n' + "x = 1\n" * 500, {"keys.py": "keys"}, ["keys.py: its first paragraph"]),
        ("x = 1\n" * 501, {"keys.py": "keys"}, ["keys.py: its first paragraph"]),
        ('"""Keys."""\n', {"keys.py": "keys"}, ["keys.py has no more than 500 lines"]),
        ('"""Keys."""\n', {}, []),
    ],
)
def test_a_missing_noun_and_one_too_many_are_found(
    tmp_path: Path, text: str, nouns: dict[str, str], expected: list[str]
) -> None:
    (tmp_path / "keys.py").write_text(text, encoding="utf-8")
    (tmp_path / "generated").mkdir()
    (tmp_path / "generated" / "long.py").write_text("x = 1\n" * 600, encoding="utf-8")
    found = problems(tmp_path, nouns)
    assert len(found) == len(expected)
    assert all(line.startswith(begin) for line, begin in zip(found, expected, strict=True))
