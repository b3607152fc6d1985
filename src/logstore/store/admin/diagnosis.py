"""Diagnosis of a directory: present and coming problems, found without changing anything in it.

`diagnose` looks at a root from outside: its lock holder, its owner, the remains of a crash, whether files and
catalogue agree, the free space. It opens no log and takes no lock. So it works beside a live owner, on Kafka's
directories, and on those that cannot be opened any more. Each finding says what to do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from logstore.client.backend.findings import Finding, Level
from logstore.config.checks import Severity, check
from logstore.config.store import StoreConfig
from logstore.errors import DamagedCatalogueError, LogstoreError, NotALogError
from logstore.io._files import LIBC, Files, errno_of
from logstore.log.directory import files, next_segment
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import Holder, holder_of
from logstore.log.formats.checkpoints import LogKind
from logstore.log.recovery import recovery
from logstore.log.tools import verify
from logstore.records import TopicPartition
from logstore.store.catalog import layout
from logstore.store.catalog.topic_list import Catalogue, TopicState
from logstore.store.catalog.topics import RETENTION_UNRECORDED, effective_config, is_retention_unrecorded
from logstore.topic_names import CLUSTER_METADATA, INTERNAL

#: A file system with less than this share free is nearly full.
NEARLY_FULL = 0.05


_problem = partial(Finding, Level.PROBLEM)
_warning = partial(Finding, Level.WARNING)
_info = partial(Finding, Level.INFO)


@dataclass(frozen=True)
class _Seen:
    """Facts of a root, for the rules below."""

    root: Directory
    config: StoreConfig
    holder: Holder | None
    partitions: tuple[TopicPartition, ...]
    catalogue: Catalogue | None
    deep: bool
    step: Callable[[int], None]

    def directory_of(self, name: TopicPartition) -> Directory:
        return layout.partition_directory(self.root, name)


def diagnose(
    path: str | os.PathLike[str],
    config: StoreConfig | None = None,
    *,
    deep: bool = False,
    table: Files = LIBC,
    step: Callable[[int], None] = lambda partitions: None,
) -> Iterator[Finding]:
    """Find all problems and facts of a store's directory, in the order of looking.

    ``deep`` compares the checksum of every batch, which reads everything; ``step`` is called after each
    partition that was looked into.
    """
    root = Directory(path, table)
    try:
        names = root.names()
    except LogstoreError as error:
        if errno_of(error) in (errno.ENOENT, errno.ENOTDIR):
            what = (
                "the directory does not exist" if not os.path.exists(root.path) else "the path is not a directory"
            )
            yield _problem("no-directory", root.path, what, "check the path")
        else:
            yield _problem("unreadable", root.path, str(error))
        return
    catalogue: Catalogue | None = None
    try:
        catalogue = Catalogue.load(root)
    except DamagedCatalogueError as error:
        yield _problem("catalogue-damaged", root.path, str(error))
    if catalogue is None:
        try:
            layout.refuse_lost_catalogue(root)
        except DamagedCatalogueError as error:
            yield _problem("catalogue-missing", root.path, str(error))
    seen = _Seen(
        root, config or StoreConfig(), holder_of(root), tuple(files.partitions_below(root)), catalogue, deep, step
    )
    yield _owner(seen, names)
    for rule in (_ownership, _disk_space, _topics, _logs, _settings):
        yield from rule(seen)


def _owner(seen: _Seen, names: list[str]) -> Finding:
    where = seen.root.path
    if seen.holder is not None:
        return _info("held", where, f"{seen.holder} writes it now")
    if not os.access(where, os.W_OK):
        return _warning("not-writable", where, "this user cannot write it", "it can be opened read-only")
    return _info("free", where, "no process writes it")


def _ownership(seen: _Seen) -> Iterator[Finding]:
    where = seen.root.path
    for stranger in files.foreign_directories(seen.root):
        advice = "move it away: neither logstore nor Kafka opens the root beside it"
        yield _problem("foreign-directory", seen.root.join(stranger), "a directory that is no partition", advice)
    ours = files.is_ours(seen.root.names()) or any(layout.is_ours(seen.directory_of(n)) for n in seen.partitions)
    logs = files.logs_below(seen.root)
    for name in seen.partitions:
        if name not in logs and not files.foreign_names(seen.directory_of(name).names()):
            advice = "remove it, or restore its files from a copy"
            yield _warning("no-log", seen.directory_of(name).path, "no log is in it", advice)
    if logs and not ours:
        yield _info("kafkas", where, "Kafka wrote it", "it opens read-only, or for writing once it is adopted")
    try:
        files.refuse_incomplete(seen.root, seen.root.names())
    except NotALogError as error:
        yield _problem("incomplete", where, str(error), "remove it")
    for name in seen.partitions:
        if name.topic == CLUSTER_METADATA:
            continue  # Kafka's alone, with files of its own
        foreign = files.foreign_names(seen.directory_of(name).names())
        if foreign:
            what = f"holds files that belong to no log: {', '.join(foreign[:5])}"
            advice = "move them away"
            yield _problem("foreign-file", seen.directory_of(name).path, what, advice)


def _disk_space(seen: _Seen) -> Iterator[Finding]:
    total, free = seen.root.files.space(seen.root.path)
    used = sum(
        facts.size + max(facts.index_size, 0) + max(facts.time_index_size, 0)
        for name in seen.partitions
        for facts in _segments(seen.directory_of(name))
    )
    where = seen.root.path
    yield _info("size", where, f"{used} bytes in {len(seen.partitions)} partition(s), {free} free")
    reserve = seen.config.reserve_bytes(total)
    budget = seen.config.budget_bytes(total)
    if free <= reserve:
        what = f"{free} bytes are free, logstore.disk.reserve keeps {reserve}"
        advice = "make room, or lower the reserve"
        yield _problem("below-reserve", where, what, advice)
    elif total and free / total < NEARLY_FULL:
        yield _warning("nearly-full", where, f"{free} of {total} bytes are free", "make room, or shorten retention")
    if budget is not None and used > budget:
        what = f"{used} bytes are in use, logstore.disk.budget allows {budget}"
        advice = "raise it, or shorten retention"
        yield _warning("above-budget", where, what, advice)


def _segments(directory: Directory) -> list[verify.SegmentFacts]:
    bases = next_segment.base_offsets(directory)
    return verify.segments(verify.LogSegments(directory, tuple(bases)))


# --- topics ------------------------------------------------------------------------------------


def _topics(seen: _Seen) -> Iterator[Finding]:
    if seen.catalogue is None:
        return
    found = set(seen.partitions)
    for topic, entry in seen.catalogue.topics.items():
        where = f"topic {topic}"
        if entry.state is not TopicState.READY and seen.holder is None:
            what = f"a crash has left it {entry.state.value}"
            advice = "the next open for writing finishes or undoes it"
            yield _info("interrupted", where, what, advice)
            continue
        if entry.state in (TopicState.CREATING, TopicState.DELETING):
            continue
        if is_retention_unrecorded(topic, entry, effective_config(seen.config, entry)):
            yield _warning("retention-unrecorded", where, RETENTION_UNRECORDED, "set retention.ms to choose")
        # What a power cut took of a new topic was empty, and is made again.
        for number in range(entry.partitions if entry.is_synced else 0):
            name = TopicPartition(topic, number)
            path = seen.root.join(str(name))
            if name not in found:
                what = "the catalogue has it, the disk has not"
                advice = "restore the directory from a copy"
                yield _problem("partition-missing", path, what, advice)
            elif not layout.holds_a_log(seen.directory_of(name).names()):
                what = "the directory has lost the files of a log"
                advice = "restore them from a copy"
                yield _problem("partition-emptied", path, what, advice)
    for name in seen.partitions:
        entry_of = seen.catalogue.topics.get(name.topic)
        known = entry_of is not None and name.partition < max(entry_of.partitions, entry_of.target)
        if not known and name.topic not in (*INTERNAL, CLUSTER_METADATA):
            told = layout.read_partition_metadata(seen.directory_of(name))
            of = next((topic for topic, entry in seen.catalogue.topics.items() if entry.id == told), None)
            what = f"the disk has it, the catalogue has not{'' if of is None else f': it is of the topic {of!r}'}"
            advice = "move it away if it is not wanted" if of is None else "a copy, or moved: move it away, or back"
            yield _warning("partition-unknown", seen.root.join(str(name)), what, advice)


# --- logs --------------------------------------------------------------------------------------


def _logs(seen: _Seen) -> Iterator[Finding]:
    for name in seen.partitions:
        directory = seen.directory_of(name)
        try:
            yield from _log(seen, name, directory)
        except LogstoreError as error:
            yield _problem("unreadable", directory.path, str(error))
        seen.step(1)


def _log(seen: _Seen, name: TopicPartition, directory: Directory) -> Iterator[Finding]:
    names = directory.names()
    if any(each.endswith(files.LOG + files.SWAP) for each in names) and seen.holder is None:
        yield _info(
            "swap", directory.path, "a compaction was cut off at its swap", "the next open for writing finishes it"
        )
    if "logstore.recovery" in names and seen.holder is None:
        point = recovery.read_point(directory)
        if point is not None and point.suspect:
            what = "a sync failed: what is in memory may differ from the disk"
            advice = "the next open writes it again; look at the disk's health"
            yield _warning("suspect", directory.path, what, advice)
        elif point is not None and not point.clean:
            yield _info("unclean", directory.path, "it was not closed", "the next open for writing recovers it")
    bases = next_segment.base_offsets(directory, names)
    if not bases:
        lost = verify.lost_segments(directory)
        if lost is not None:
            advice = "restore the partition's files from a copy"
            yield _problem(lost.kind.value, lost.path, str(lost), advice)
        return
    place = verify.LogSegments(directory, tuple(bases) if seen.deep else (bases[-1],))
    config, kind = seen.config.log, recovery.read_kind(directory)
    if seen.catalogue is not None and name.topic in seen.catalogue.topics:
        entry = seen.catalogue.topics[name.topic]
        config, kind = effective_config(seen.config, entry), kind.with_other(entry.kind)
    yield from _gaps(seen, directory, kind)
    for problem in verify.verify(place, is_live=seen.holder is not None, is_compacted=config.compacts, kind=kind):
        if problem.kind is verify.Kind.DAMAGE:
            found, advice = _problem, "restore the file from a copy, or see `logstore segment repair`"
        else:
            found, advice = _warning, "the next open for writing repairs it"
        yield found(problem.kind.value, problem.path, str(problem), advice)


def _gaps(seen: _Seen, directory: Directory, kind: LogKind) -> Iterator[Finding]:
    found = verify.gaps(directory)
    if found and seen.holder is not None:
        # The owner may have swapped segments between two listings.
        found = [gap for gap in verify.gaps(directory) if gap in found]
    if kind is LogKind.CONTIGUOUS:
        if seen.deep:
            return  # the verification names them
        for gap in found:
            what = f"offsets {gap.first_offset} to {gap.end_offset - 1} are missing before the next segment"
            advice = "restore the missing file from a copy, or see `logstore segment repair`"
            yield _problem("gap", gap.path, what, advice)
    elif found:
        first, missing = found[0], sum(gap.end_offset - gap.first_offset for gap in found)
        what = (
            f"{missing} offset(s) are missing between segments, in {len(found)} place(s), the first of them "
            f"{first.first_offset} to {first.end_offset - 1}"
        )
        if kind is LogKind.GAPPED:
            yield _info("gap", directory.path, what, "what Kafka or a replica wrote may have gaps")
        else:
            advice = "whether they were meant was never recorded: compare it with a copy"
            yield _warning("gap", directory.path, what, advice)


def _settings(seen: _Seen) -> Iterator[Finding]:
    topics = {}
    if seen.catalogue is not None:
        for name, entry in seen.catalogue.topics.items():
            topics[name] = effective_config(seen.config, entry)
    total, _free = seen.root.files.space(seen.root.path)
    for found in check(seen.config, topics, disk_bytes=total):
        if found.severity is Severity.DANGER:
            yield _warning(found.name, found.where, found.meaning, found.advice)
    needed = len(seen.partitions) * 2
    limit = seen.root.files.descriptor_limit
    if needed > limit:
        what = f"{len(seen.partitions)} partitions share {limit} descriptors"
        advice = "raise the limit of open files (ulimit -n) if all of them are busy"
        yield _info("descriptors", seen.root.path, what, advice)
