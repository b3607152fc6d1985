"""What a command says and how it ends: data on standard output, talk on standard error, one exit status.

Every command writes through here, so that a closed pipe ends it quietly, bytes that are no text pass
unharmed, and JSON is one object a line.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

OK = 0
FAILED = 1  #: the command could not do what it was asked, or found what it was to look for
USAGE = 2  #: the command line or a setting in it is wrong; nothing was done
RETRY = 75  #: it may work later: another process has the store, or the disk is full (EX_TEMPFAIL)
INTERRUPTED = 130  #: Ctrl-C, as shells count it
CLOSED_PIPE = 141  #: nobody reads the output any more, as shells count it

EXIT_STATUS = (
    "Exit status: 0 done, 1 failed or found a problem, 2 wrong command line or setting, 75 try again later "
    "(another process writes the store, or the disk is full), 130 interrupted."
)


class ClosedPipeError(Exception):
    """Whoever read our output has gone, as `head` does."""


def write(data: bytes | str) -> None:
    """Data, to standard output, as it is."""
    try:
        sys.stdout.buffer.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)
    except BrokenPipeError:
        raise ClosedPipeError from None


def flush() -> None:
    """Let a reader see what was written."""
    try:
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise ClosedPipeError from None


def line(text: str = "") -> None:
    write(text + "\n")


def say(text: str) -> None:
    """Write a message to standard error, behind the data that was written before it.

    Standard output is buffered where it is no terminal: without the flush, a summary would come before the
    lines that it sums up as soon as both go into one file.
    """
    with contextlib.suppress(ClosedPipeError):
        flush()
    with contextlib.suppress(BrokenPipeError):
        click.echo(text, err=True)


def print_json(value: Mapping[str, Any]) -> None:
    """One object on one line."""
    line(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool, columns: Sequence[str] = ()) -> None:
    """A table with a head, or with ``as_json`` one object a line. Nothing is printed of no rows."""
    if as_json:
        for row in rows:
            print_json(row)
        return
    names = list(columns) or (list(rows[0]) if rows else [])
    cells = [names] + [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(names))]
    for shown in cells if rows else []:
        line("  ".join(cell.ljust(width) for cell, width in zip(shown, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{key}={part}" for key, part in value.items()) or "-"
    return str(value)


def as_text(data: bytes | None) -> dict[str, Any]:
    """Bytes as a JSON value: text where they are UTF-8, else their base64 under another name.

    >>> as_text(b"AA"), as_text(bytes([255])), as_text(None)
    ({'text': 'AA'}, {'base64': '/w=='}, {'text': None})
    """
    if data is None:
        return {"text": None}
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


@contextlib.contextmanager
def progress(label: str, total: int | None = None, *, beside_data: bool = False) -> Iterator[Any]:
    """A bar on standard error if that is a terminal, else nothing; call what it gives with steps done.

    ``beside_data`` says that data is printed meanwhile: then there is none where that is on a terminal, too.
    """
    if not sys.stderr.isatty() or (beside_data and sys.stdout.isatty()):
        yield lambda steps: None
        return
    with click.progressbar(length=total or 0, label=label, file=sys.stderr) as bar:
        yield bar.update


@contextlib.contextmanager
def counted(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """`progress`, where each report says how many parts are done and of how many; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def report(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield report


def forget_output() -> None:
    """After a closed pipe: nothing more goes out, not even what the interpreter flushes at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def lines_of(texts: Iterable[str]) -> None:
    for text in texts:
        line(text)
