"""``logstore segment``: files of a partition, Kafka's or ours, without opening its log."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any

import click

from logstore.cli import output
from logstore.cli.store_option import LocalPath, StoreOptions, json_option, store_options
from logstore.config.log import LogConfig
from logstore.config.store import StoreConfig
from logstore.errors import CorruptRecordError, LogstoreError
from logstore.log.directory import files, next_segment
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import holder_of
from logstore.log.formats.checkpoints import LogKind
from logstore.log.tools import repair
from logstore.log.tools import verify as verification
from logstore.log.tools.verify import Found, LogSegments
from logstore.store.catalog.topic_list import Catalogue, TopicEntry

PATHS = click.argument("paths", nargs=-1, type=LocalPath())


@click.group()
def segment() -> None:
    """List, dump, verify and repair the files of partitions.

    A PATH is a partition's directory or one of its files, written by logstore or by Kafka. Without
    a PATH a command applies to all partitions of the store. Only rebuild-index and repair change files;
    they fail while a process writes the directory.
    """


def _places(paths: tuple[str, ...], options: StoreOptions) -> list[LogSegments]:
    if not paths:
        root = Directory(options.existing())
        paths = tuple(root.join(str(name)) for name in files.partitions_below(root))
        return [verification.find(path) for path in paths if files.base_offsets(Directory(path).names())]
    return [verification.find(path) for path in paths]


def _entry_of(directory: Directory) -> TopicEntry | None:
    """Return the entry of a partition's topic, if a catalogue above it has one."""
    root = Directory(os.path.dirname(directory.path), directory.files)
    try:
        topics = Catalogue.load(root)
        return None if topics is None else topics.topics.get(files.parse_partition(directory.path).topic)
    except LogstoreError:
        return None


def _config_of(directory: Directory) -> LogConfig:
    """Return the settings of a partition's topic, if a catalogue above it has them."""
    entry = _entry_of(directory)
    return StoreConfig().topic_config(None if entry is None else dict(entry.settings))


# --- list --------------------------------------------------------------------------------------


@segment.command("list")
@PATHS
@json_option
@store_options
def list_segments(paths: tuple[str, ...], as_json: bool, options: StoreOptions) -> None:
    """List the segments with their base offsets and sizes in bytes.

    JSON: partition, base_offset, size, index_size, time_index_size, modified_ms, path.
    """
    rows = [
        {"partition": os.path.basename(found.directory.path), **facts._asdict()}
        for found in _places(paths, options)
        for facts in verification.segments(found)
    ]
    columns = ("partition", "base_offset", "size", "index_size", "time_index_size", "modified_ms")
    output.print_rows(rows, as_json=as_json, columns=columns)


# --- dump --------------------------------------------------------------------------------------


@segment.command()
@PATHS
@click.option("--deep", is_flag=True, help="Print every record of each batch, with its key and value.")
@click.option("--offset", "from_offset", type=int, default=0, help="Begin with the batch that holds this offset.")
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after so many batches or entries.")
@json_option
@store_options
def dump(
    paths: tuple[str, ...], deep: bool, from_offset: int, count: int | None, as_json: bool, options: StoreOptions
) -> None:
    """Print the content of the files: batches, index entries, producers, aborted transactions.

    The name of a file determines its kind. Lines of batches have the format of Kafka's DumpLogSegments.
    Checksums are compared; damage ends the dump with status 1.
    """
    lines = (line for path in _files(paths, options) for line in _lines(path, deep, from_offset))
    for text, facts in itertools.islice(lines, count):
        output.print_json(facts) if as_json else output.line(text)


def _files(paths: tuple[str, ...], options: StoreOptions) -> Iterator[str]:
    for path in paths or [found.directory.path for found in _places((), options)]:
        if os.path.isdir(path):
            found = verification.find(path)
            names = found.directory.names()
            for base in found.bases:
                yield found.directory.join(next_segment.segment_name(found.directory, base, names))
        else:
            verification.find(path)  # an invalid name is refused before anything is printed
            yield path


def _lines(path: str, deep: bool, from_offset: int) -> Iterator[tuple[str, dict[str, Any]]]:
    directory, (base, *_) = verification.find(path)
    kind = os.path.splitext(path)[1]
    if kind == files.LOG or os.path.basename(path).startswith(files.NEXT):
        yield from _batch_lines(path, deep, from_offset)
    elif kind == files.OFFSET_INDEX:
        for offset, position in verification.index_entries(directory, base):
            if offset >= from_offset:
                yield f"offset: {offset} position: {position}", {"offset": offset, "position": position}
    elif kind == files.TIME_INDEX:
        for timestamp, offset in verification.time_entries(directory, base):
            if offset >= from_offset:
                facts = {"timestamp_ms": timestamp, "offset": offset}
                yield f"timestamp: {timestamp} offset: {offset}", facts
    elif kind == files.ABORTED_INDEX:
        yield from _tuples(path, verification.aborted_entries(directory, base))
    elif kind == files.SNAPSHOT:
        yield from _tuples(path, _producers(directory, base))
    else:
        raise click.UsageError(f"{path}: expected a .log, .index, .timeindex, .txnindex or .snapshot")


def _producers(directory: Directory, base: int) -> list[dict[str, Any]] | None:
    states = verification.snapshot_entries(directory, base)
    if states is None:
        return None
    return [
        {
            "producer_id": state.producer_id,
            "producer_epoch": state.epoch,
            "coordinator_epoch": state.coordinator_epoch,
            "last_timestamp_ms": state.timestamp_ms,
            "current_transaction_first_offset": state.transaction_first_offset,
            "last_sequence": state.batches[-1].last_sequence if state.batches else None,
            "last_offset": state.batches[-1].last_offset if state.batches else None,
        }
        for state in states
    ]


def _tuples(path: str, entries: list[Any] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    if entries is None:
        raise CorruptRecordError("the file is not whole", path=path)
    for entry in entries:
        facts = entry if isinstance(entry, dict) else entry._asdict()
        yield " ".join(f"{name}: {value}" for name, value in facts.items()), facts


def _batch_lines(path: str, deep: bool, from_offset: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for found in verification.batches(path):
        if found.batch.last_offset < from_offset:
            continue
        facts = _batch_facts(found)
        yield _batch_text(facts), facts
        if not deep:
            continue
        for record in verification.records(found, path):
            shown = {
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "key": output.as_text(record.key),
                "value": output.as_text(record.value),
                "headers": [[name, output.as_text(value)] for name, value in record.headers],
            }
            yield _record_text(record), shown


def _batch_facts(found: Found) -> dict[str, Any]:
    batch = found.batch
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.record_count,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "leader_epoch": batch.leader_epoch,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "position": found.position,
        "timestamp_type": "CreateTime" if batch.timestamp_type == 0 else "LogAppendTime",
        "max_timestamp_ms": batch.max_timestamp_ms,
        "size": batch.size,
        "codec": batch.codec.name.lower(),
        "crc": batch.crc,
    }


def _batch_text(facts: dict[str, Any]) -> str:
    horizon = facts["delete_horizon_ms"]
    shown = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
    return (
        f"baseOffset: {facts['base_offset']} lastOffset: {facts['last_offset']} count: {facts['count']} "
        f"baseSequence: {facts['base_sequence']} lastSequence: {facts['last_sequence']} "
        f"producerId: {facts['producer_id']} producerEpoch: {facts['producer_epoch']} "
        f"partitionLeaderEpoch: {facts['leader_epoch']} isTransactional: {_java(facts['is_transactional'])} "
        f"isControl: {_java(facts['is_control'])} deleteHorizonMs: {shown} position: {facts['position']} "
        f"{facts['timestamp_type']}: {facts['max_timestamp_ms']} size: {facts['size']} magic: 2 "
        f"compresscodec: {facts['codec']} crc: {facts['crc']} isvalid: true"
    )


def _record_text(record: Any) -> str:
    names = ",".join(name for name, _ in record.headers)
    key = "" if record.key is None else f" key: {_shown(record.key)}"
    value = "" if record.value is None else f" payload: {_shown(record.value)}"
    sizes = f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    kind = "CreateTime" if record.timestamp_type == 0 else "LogAppendTime"
    return f"| offset: {record.offset} {kind}: {record.timestamp_ms} {sizes} headerKeys: [{names}]{key}{value}"


def _java(value: bool) -> str:
    return str(value).lower()


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _shown(data: bytes) -> str:
    """Return bytes as one line of text, with escapes for bytes that are not text."""
    return data.decode("utf-8", "backslashreplace").replace("\n", "\\n").replace("\r", "\\r")


# --- verify ------------------------------------------------------------------------------------


@segment.command()
@PATHS
@click.option("--deep", is_flag=True, help="Check every record, too.")
@click.option("--compacted", is_flag=True, help="Accept missing offsets between segments.")
@json_option
@store_options
def verify(paths: tuple[str, ...], deep: bool, compacted: bool, as_json: bool, options: StoreOptions) -> int:
    """Compare every checksum, offset and index entry; name each problem with file, position and offset.

    Status 1 if there is any problem. Kinds: damage (records are lost), tail (an end that was never
    synced, which the next open truncates), index and state (can be rebuilt).

    JSON: kind, path, position, offset, what.
    """
    count = 0
    checked = 0
    places = _places(paths, options)
    for problem in _lost(paths, options):
        count += 1
        output.print_item(problem, as_json=as_json)
    with output.progress("verify", len(places)) as step:
        for found in places:
            for problem in _problems(found, deep=deep, compacted=compacted):
                count += 1
                output.print_item(problem, as_json=as_json)
            checked += len(found.bases)
            step(1)
    output.say(f"{checked} segment(s) of {len(places)} partition(s): {count or 'no'} problem(s)")
    return output.FAILED if count else output.OK


def _lost(paths: tuple[str, ...], options: StoreOptions) -> Iterator[verification.Problem]:
    """Yield a problem for each partition of the store whose segments are all missing."""
    if paths:
        return
    root = Directory(options.existing())
    for name in files.partitions_below(root):
        problem = verification.lost_segments(Directory(root.join(str(name))))
        if problem is not None:
            yield problem


def _problems(found: LogSegments, *, deep: bool, compacted: bool) -> Iterable[verification.Problem]:
    root = Directory(os.path.dirname(found.directory.path))
    return verification.verify(
        found,
        deep=deep,
        is_live=holder_of(root) is not None,
        is_compacted=_config_of(found.directory).compacts,
        kind=_kind_of(found.directory, compacted=compacted),
    )


def _kind_of(directory: Directory, *, compacted: bool) -> LogKind:
    """Return the kind of log, which decides about gaps between segments if its own files do not."""
    entry = _entry_of(directory)
    if compacted:
        return LogKind.GAPPED
    return LogKind.UNRECORDED if entry is None else entry.kind


# --- repair ------------------------------------------------------------------------------------


@segment.command("rebuild-index")
@PATHS
@store_options
def rebuild_index(paths: tuple[str, ...], options: StoreOptions) -> None:
    """Rebuild the offset and time indexes from the batches. No record is lost."""
    for found in _places(paths, options):
        for path in repair.rebuild_indexes(found, _config_of(found.directory)):
            output.line(path)


@segment.command("repair")
@click.argument("paths", nargs=-1, required=True, type=LocalPath())
@click.option("--yes-cut-damage", is_flag=True, help="Truncate the log before the first damage.")
@click.option("--accept-gaps", is_flag=True, help="Skip missing segments from now on.")
@click.option("--compacted", is_flag=True, help="Accept missing offsets between segments.")
@json_option
def repair_damage(
    paths: tuple[str, ...], yes_cut_damage: bool, accept_gaps: bool, compacted: bool, as_json: bool
) -> int:
    """Truncate a partition's log before its first damage, so that it opens again.

    All data from there on is removed from the log, including undamaged batches after the damage, and kept in
    PARTITION/.repaired. Restoring the file from a copy is better, if there is one. Without
    --yes-cut-damage it only reports what it would do, with status 1.

    --accept-gaps removes nothing. If a segment, or the end of one, is lost between others, reading stops before
    the gap with an error. With this option it skips the gap. The option is permanent: of a later loss between
    segments of this partition, only doctor gives a report.

    JSON: offset (where the log ends now), path, position, size (bytes removed), kept.
    """
    status = output.OK
    for path in paths:
        found = verification.find(path)
        config = _config_of(found.directory)
        if compacted and not config.compacts:
            config = config.replace(cleanup_policy="compact")
        if accept_gaps:
            repair.accept_gaps(found.directory)
            output.say(f"{found.directory.path}: gaps between segments are passed over from now on")
            if not yes_cut_damage:
                continue
        if not yes_cut_damage:
            status = max(status, _say_damage(found, config, compacted=compacted))
            continue
        cut = repair.cut_damage(found.directory, config)
        if cut is None:
            output.say(f"{found.directory.path}: nothing to cut")
        elif as_json:
            output.print_json(cut._asdict())
        else:
            output.line(
                f"{cut.path}: cut at position {cut.position}, the log ends at offset {cut.offset}; "
                f"{cut.size} bytes are kept in {cut.kept}"
            )
    return status


def _say_damage(found: LogSegments, config: LogConfig, *, compacted: bool) -> int:
    whole = verification.find(found.directory.path)
    problems = [
        problem
        for problem in verification.verify(
            whole, is_compacted=config.compacts, kind=_kind_of(whole.directory, compacted=compacted)
        )
        if problem.kind in (verification.Kind.DAMAGE, verification.Kind.TAIL)
    ]
    for problem in problems:
        output.line(str(problem))
    if not problems:
        output.say(f"{found.directory.path}: nothing to cut")
        return output.OK
    output.say("nothing was changed; --yes-cut-damage ends the log in front of the first of these")
    return output.FAILED
