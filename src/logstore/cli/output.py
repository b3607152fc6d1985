"""Output of a command: data on standard output, messages on standard error, an exit status.

Every command writes through here, so that a closed pipe ends it without a message, binary data is written
unchanged, and JSON is one object a line.
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
FAILED = 1  #: the command failed, or found the problem that it checks for
USAGE = 2  #: the command line or a setting in it is wrong; nothing was done
RETRY = 75  #: it may succeed later: another process has the store, or the disk is full (EX_TEMPFAIL)
INTERRUPTED = 130  #: Ctrl-C, as shells count it
CLOSED_PIPE = 141  #: the reader of the output has closed it, as shells count it

EXIT_STATUS = (
    "Exit status: 0 done, 1 failed or found a problem, 2 wrong command line or setting, 75 try again later "
    "(another process writes the store, or the disk is full), 130 interrupted."
)


class ClosedPipeError(Exception):
    """The reader of the output has closed it, as `head` does."""


def write(data: bytes | str) -> None:
    """Write data to standard output, unchanged."""
    try:
        sys.stdout.buffer.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)
    except BrokenPipeError:
        raise ClosedPipeError from None


def flush() -> None:
    """Flush standard output, so that a reader sees the data."""
    try:
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise ClosedPipeError from None


def line(text: str = "") -> None:
    write(text + "\n")


def say(text: str) -> None:
    """Write a message to standard error, after the data that was written before it.

    Standard output is buffered unless it is a terminal. Without the flush, a summary would come before the
    lines that it sums up if both are written to one file.
    """
    with contextlib.suppress(ClosedPipeError):
        flush()
    with contextlib.suppress(BrokenPipeError):
        click.echo(text, err=True)


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object on one line."""
    line(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def print_item(item: Any, *, as_json: bool) -> None:
    """Print a named tuple as its text, or with ``as_json`` as one object."""
    print_json(item._asdict()) if as_json else line(str(item))


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool, columns: Sequence[str] = ()) -> None:
    """Print a table with a header, or with ``as_json`` one object a line. Without rows, print nothing."""
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
    """Return bytes as a JSON value: text if they are UTF-8, else base64 under another name.

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
    """Show a progress bar on standard error if that is a terminal; yields a function to call with steps done.

    With ``beside_data`` the command prints data meanwhile: no bar if standard output is a terminal, too.
    """
    if not sys.stderr.isatty() or (beside_data and sys.stdout.isatty()):
        yield lambda steps: None
        return
    with click.progressbar(length=total or 0, label=label, file=sys.stderr) as bar:
        yield bar.update


@contextlib.contextmanager
def counted(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show `progress` from reports of parts done and their total; yields None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def report(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield report


def confirm(question: str, yes: bool, refusal: str = "a deletion cannot be undone; give --yes") -> None:
    """Ask before a change that cannot be undone, unless ``yes`` was given.

    Raises:
        click.UsageError: standard input is no terminal.
        click.Abort: the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(refusal)
    click.confirm(question, abort=True, err=True)


def forget_output() -> None:
    """Discard all output after a closed pipe, including the interpreter's flush at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def lines_of(texts: Iterable[str]) -> None:
    for text in texts:
        line(text)
