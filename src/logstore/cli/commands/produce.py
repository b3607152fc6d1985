"""``logstore produce``: records from standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import click

from logstore.cli import completion, output
from logstore.cli.param_types import PAIR
from logstore.cli.store_option import StoreOptions, reach_options
from logstore.client.producer import Producer
from logstore.errors import InvalidRecordError, LogstoreError, RecordError, UnknownPartitionError
from logstore.store.admin.transfer import Line, record_of_json

_READ_BYTES = 1 << 16


def delimiter(_ctx: click.Context, _param: click.Parameter, value: str | None) -> bytes | None:
    r"""Parse a delimiter with ``\t``, ``\n``, ``\0`` and ``\xHH`` as in C."""
    if value is None:
        return None
    try:
        plain = value.encode().decode("unicode_escape").encode("latin-1") if "\\" in value else value.encode()
    except UnicodeError:
        plain = b""
    if not plain:
        raise click.BadParameter(f"expected at least one byte, found {value!r}")
    return plain


@click.command()
@click.argument("topic", shell_complete=completion.topics)
@click.option(
    "-K",
    "--key-delimiter",
    callback=delimiter,
    help="Split each line into key and value at this text, such as : or \\t.",
)
@click.option(
    "-D", "--delimiter", "end", callback=delimiter, default="\\n", help="Delimiter of records.  [default: \\n]"
)
@click.option("-k", "--key", help="The key of every record.")
@click.option("-p", "--partition", type=int, help="The partition of every record, instead of by key.")
@click.option(
    "-H", "--header", "headers", multiple=True, type=PAIR, help="A header of every record; may be repeated."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Each line is a record in JSON, as `logstore export` writes it."
)
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="An empty key or value is null: a tombstone.")
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none")
@click.option(
    "--ack",
    type=click.Choice(["written", "synced"]),
    help="Wait for written, or for synced, which survives power loss.",
)
@click.option("-c", "--create", is_flag=True, help="Create the topic and the store if they do not exist.")
@click.option("-q", "--quiet", is_flag=True, help="Print no summary.")
@reach_options
def produce(
    topic: str,
    key_delimiter: bytes | None,
    end: bytes,
    key: str | None,
    partition: int | None,
    headers: tuple[tuple[str, str], ...],
    as_json: bool,
    empty_is_null: bool,
    compression: str,
    ack: str | None,
    create: bool,
    quiet: bool,
    options: StoreOptions,
) -> None:
    """Append each line of standard input to TOPIC as a record.

    A refused line ends the command. The message gives its number, and says which lines before it were written.
    """
    if as_json and (key_delimiter is not None or end != b"\n"):
        raise click.UsageError("--json lines have their keys in them, and end with a newline")
    fixed = tuple((name, value.encode()) for name, value in headers)

    def record_of(raw: bytes) -> Line | None:
        record = _json(raw) if as_json else _plain(raw, key_delimiter, empty_is_null)
        return record and record._replace(
            key=key.encode() if key is not None and record.key is None else record.key,
            partition=partition if record.partition is None else record.partition,
            headers=(*record.headers, *fixed),
        )

    settings: dict[str, Any] = {"compression_type": compression} | ({"logstore.ack": ack} if ack else {})
    with options.reach(read_only=False, create=create) as store:
        if create:
            store.create_topic(topic, if_not_exists=True)
        store.topic(topic)
        with store.producer(settings) as producer:
            count = send_lines(producer, topic, split(sys.stdin.buffer, end), record_of, lines=end == b"\n")
    if not quiet:
        output.say(f"{count} record(s)")


def send_lines(
    producer: Producer,
    topic: str,
    raws: Iterable[bytes],
    record_of: Callable[[bytes], Line | None],
    *,
    source: str = "",
    lines: bool = True,
) -> int:
    """Send the record of each line, and return their number; a line without one is skipped.

    Raises:
        InvalidRecordError: a line is not accepted. Those before it are written.
    """
    count = number = 0
    try:
        for raw in raws:
            number += 1
            record = record_of(raw)
            if record is None:
                continue
            producer.send(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=record.headers or None,
            )
            count += 1
    except (RecordError, UnknownPartitionError) as error:
        raise InvalidRecordError(bad_line(number, error, count, source=source, lines=lines)) from error
    finally:
        producer.flush()
    return count


def bad_line(number: int, error: LogstoreError, count: int, *, source: str = "", lines: bool = True) -> str:
    """Return a message: the error of a line, the input written so far, and how to continue without duplicates."""
    what = "line" if lines else "record"
    said = f"{source + ' ' if source else ''}{what} {number}: {error}"
    if not count:
        return f"{said}; nothing was written"
    how = f"correct it, and go on from {what} {number}" + (f", as with `tail -n +{number}`" if lines else "")
    return f"{said}; the {count} record(s) before it are written: {how}"


def split(stream: BinaryIO, end: bytes) -> Iterator[bytes]:
    """Split a stream at delimiters; an empty rest after the last one is not a record."""
    if end == b"\n":
        for line in stream:
            yield line.removesuffix(b"\n")
        return
    held = b""
    while data := stream.read(_READ_BYTES):
        *whole, held = (held + data).split(end)
        yield from whole
    if held:
        yield held


def _plain(raw: bytes, key_delimiter: bytes | None, empty_is_null: bool) -> Line:
    key: bytes | None = None
    value: bytes | None = raw
    if key_delimiter is not None:
        head, found, rest = raw.partition(key_delimiter)
        if not found:
            raise InvalidRecordError(f"the line has no key delimiter {key_delimiter!r}")
        key, value = head, rest
    if empty_is_null:
        key, value = key or None, value or None
    return Line(value, key)


def _json(raw: bytes) -> Line | None:
    return record_of_json(raw) if raw.strip() else None
