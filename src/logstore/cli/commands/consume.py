"""``logstore consume``: the records of a topic, as they arrive."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo

import click

from logstore.batch._batch import Record
from logstore.cli import completion, output
from logstore.cli.param_types import WHERE, Begin, all_of, iso, isolation_option, partitions_option, zone_option
from logstore.cli.positions import offset_in
from logstore.cli.store_option import StoreOptions, reach_options
from logstore.client.consumer import Consumer
from logstore.client.store import AnyStore
from logstore.clock import SYSTEM_CLOCK
from logstore.config.log import Setting
from logstore.log.read.damage import DAMAGE, left_out
from logstore.records import Isolation, TopicPartition
from logstore.store.admin.transfer import record_to_json

POLL_S = 0.5
#: Largest number of records of a poll, and so of a commit, which may be a request to another process.
POLL_RECORDS = 5_000

_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


#: ``--format`` and ``--json``: how a record is printed; see `printer`.
printing_options = all_of(
    click.option(
        "-f",
        "--format",
        "form",
        help="How a record is printed: %s value, %k key, %h headers, %t topic, %p partition, %o offset, "
        "%T timestamp in ms, %I in ISO 8601 in the zone of --tz, %S and %K sizes of value and key (-1 is "
        "null), %R size of the value in four bytes, %% a percent sign; \\n \\t \\xHH.  [default: %s\\n]",
    ),
    click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as `logstore export` writes it."),
)


@click.command()
@click.argument("topic", shell_complete=completion.topics)
@partitions_option
@click.option(
    "-o",
    "--offset",
    "begin",
    type=WHERE,
    help="Where to begin: beginning, end, an offset, -N (the last N of each partition), or @TIME (ms, "
    "2026-11-21T10:00:00Z, '2026-11-21 10:00' in the zone of --tz, or -2h). By default the group's position, else "
    "the beginning.",
)
@click.option("-e", "--exit", "until_end", is_flag=True, help="Stop at the current end.")
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after so many records.")
@printing_options
@click.option(
    "-g",
    "--group",
    shell_complete=completion.groups,
    help="Begin at the group's committed offsets, and commit what was printed.",
)
@click.option("--no-commit", is_flag=True, help="Commit nothing for the group.")
@isolation_option()
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Skip damaged records and name them on standard error; status 1 at the end.",
)
@zone_option
@reach_options
def consume(
    topic: str,
    partitions: tuple[int, ...],
    begin: Begin | None,
    until_end: bool,
    count: int | None,
    form: str | None,
    as_json: bool,
    group: str | None,
    no_commit: bool,
    isolation: str,
    skip_damaged: bool,
    zone: tzinfo,
    options: StoreOptions,
) -> int:
    """Print the records of TOPIC, and new ones as they arrive, until Ctrl-C.

    Records of one partition are in order; those of several are printed as they arrive.
    """
    show = printer(form, zone, as_json=as_json)
    commits = group is not None and not no_commit
    if skip_damaged and options.bootstrap is not None:
        raise click.UsageError("--skip-damaged reads the files of a store; leave it out with --bootstrap")
    # Opening for writing would lock out the store's writer, which also commits the offsets.
    with options.reach(read_only=True) as store:
        if group is not None and commits:
            store.offsets.check_writable(group)
        names = [
            TopicPartition(topic, number) for number in partitions or range(store.topic(topic).partition_count)
        ]
        settings: dict[str, Setting] = {
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
        }
        with store.consumer(settings, group=group) as consumer:
            # A topic that is followed may get more partitions; one read until its end keeps those of now.
            if partitions or until_end:
                consumer.assign(names)
            else:
                consumer.assign_topics(topic)
            if begin is not None:
                seek(store, consumer, names, begin)
            ends = dict(consumer.end_offsets(names)) if until_end else None
            poll = _Skipping(store, consumer, names) if skip_damaged else consumer.poll
            waits = options.bootstrap is not None
            _print(consumer, names, show, ends, count, commits, poll, waits=waits)
            return output.FAILED if isinstance(poll, _Skipping) and poll.left_out else output.OK


class _Skipping:
    """A `Consumer.poll` that skips damaged records and reports them."""

    def __init__(self, store: AnyStore, consumer: Consumer, names: Sequence[TopicPartition]) -> None:
        self._consumer = consumer
        self._names = {store[name.topic][name.partition].path: name for name in names}
        self.left_out = 0

    def __call__(self, timeout_s: float, max_records: int) -> list[Record]:
        try:
            return self._consumer.poll(timeout_s, max_records)
        except DAMAGE as error:
            name = self._names.get(os.path.dirname(error.path or ""))
            if name is None:
                raise
            at = self._consumer.position(name)
            found = left_out(name, error, at, max(at, error.next_offset or 0))
            self._consumer.seek(name, found.next_offset)
            self.left_out += 1
            output.say(str(found))
            return []


def seek(store: AnyStore, consumer: Consumer, names: Sequence[TopicPartition], begin: Begin) -> None:
    """Seek every partition to a position of the command line."""
    now_ms = SYSTEM_CLOCK.now_ms()
    for name in names:
        log = store[name.topic][name.partition]
        consumer.seek(name, offset_in(log, begin, now_ms, consumer._config.isolation))


def follow(
    store: AnyStore, starts: dict[TopicPartition, int], show: Callable[[Record], bytes], isolation: Isolation
) -> None:
    """Print the records of some partitions, each from an offset on, until an interrupt."""
    settings: dict[str, Setting] = {"enable.auto.commit": False, "isolation.level": isolation.value}
    with store.consumer(settings) as consumer:
        consumer.assign(list(starts))
        for name, offset in starts.items():
            consumer.seek(name, offset)
        _print(consumer, list(starts), show, None, None, False, consumer.poll)


def _print(
    consumer: Consumer,
    names: Sequence[TopicPartition],
    show: Callable[[Record], bytes],
    ends: dict[TopicPartition, int] | None,
    count: int | None,
    commits: bool,
    poll: Callable[[float, int], list[Record]],
    *,
    waits: bool = False,
) -> None:
    left = count
    while left is None or left > 0:
        if ends is not None:
            for name in [name for name in ends if consumer.position(name) >= ends[name]]:
                consumer.pause(name)
                del ends[name]
            if not ends:
                break
        limit = POLL_RECORDS if left is None else min(left, POLL_RECORDS)
        # What is below an end is there in a store; brokers send it a moment later.
        records = poll(0.0 if ends is not None and not waits else POLL_S, limit)
        for record in records:
            name = TopicPartition(record.topic, record.partition)
            if ends is None or record.offset < ends.get(name, record.offset + 1):
                output.write(show(record))
                left = None if left is None else left - 1
        output.flush()
        if commits and records:
            # A commit before the flush would lose records that the reader of the output never received.
            consumer.commit()


def printer(form: str | None, zone: tzinfo, *, as_json: bool) -> Callable[[Record], bytes]:
    """Return a function that prints a record as `printing_options` ask.

    Raises:
        click.UsageError: both options are given, or the format has an unknown letter.
    """
    if as_json and form is not None:
        raise click.UsageError("--json and --format exclude each other")
    return json_line if as_json else formatter(form or "%s\\n", zone)


def json_line(record: Record) -> bytes:
    return record_to_json(record).encode("utf-8", "surrogateescape") + b"\n"


def formatter(form: str, zone: tzinfo = UTC) -> Callable[[Record], bytes]:
    """Return a function that prints a record in a format like kcat's.

    Raises:
        click.BadParameter: the format has an unknown letter.
    """
    parts: list[Callable[[Record], bytes]] = []
    fields = {**_FIELDS, "I": lambda record: iso(record.timestamp_ms, zone).encode()}
    at = 0
    for found in _TOKEN.finditer(form):
        _constant(parts, form[at : found.start()].encode())
        at = found.end()
        token, code, escape = found.groups()
        if token == "%":
            _constant(parts, b"%")
        elif token is not None:
            if token not in fields:
                raise click.BadParameter(f"unknown %{token}; known are {', '.join('%' + name for name in fields)}")
            parts.append(fields[token])
        elif code is not None:
            _constant(parts, bytes([int(code, 16)]))
        else:
            _constant(parts, _ESCAPES.get(escape, escape.encode()))
    _constant(parts, form[at:].encode())
    return lambda record: b"".join([part(record) for part in parts])


def _constant(parts: list[Callable[[Record], bytes]], data: bytes) -> None:
    if data:
        parts.append(lambda record: data)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


_FIELDS: dict[str, Callable[[Record], bytes]] = {
    "s": lambda record: record.value or b"",
    "S": lambda record: b"%d" % _size(record.value),
    "R": lambda record: _size(record.value).to_bytes(4, "big", signed=True),
    "k": lambda record: record.key or b"",
    "K": lambda record: b"%d" % _size(record.key),
    "T": lambda record: b"%d" % record.timestamp_ms,
    "h": _headers,
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
}
