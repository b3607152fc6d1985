"""A bounded scan of a topic: a range of offsets of some partitions, and the shape of its rows.

A `TopicScan` concatenates the scans of single partitions, and adds nothing to what each of them promises. The
partitions of a store come one after the other. Those of a cluster are read several at once, and take turns. The
rows of one partition are in offset order. There is no order across partitions, so each row may name its partition
and its offset. The range is fixed when the scan is made; the records are read as they are requested.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from logstore.batch._batch import Batches, Record
from logstore.batch.moments import When
from logstore.batch.runs import DEFAULT_READ_BYTES, check_limit, limited, values_of
from logstore.client.backend.partitions import Partition, RangeScan
from logstore.client.scan.read_ahead import read_ahead
from logstore.columns.tables import Tabular
from logstore.errors import UnknownPartitionError
from logstore.records import Isolation, LeftOut

if TYPE_CHECKING:
    from logstore.columns._builder import Decoder
    from logstore.columns._export import ColumnBatch, ColumnStream
    from logstore.columns.value_schema import ValueSchema

#: One bound of a scan: an offset for every partition, "earliest", "latest", or one of these for each. A start
#: below 0 is that many offsets before the partition's end.
Bound = int | str | Mapping[int, int | str] | None

_WORDS = ("earliest", "latest")


class Partitioned(Protocol):
    """A topic, as far as a scan needs it."""

    @property
    def partition_count(self) -> int: ...
    def __getitem__(self, partition: int) -> Partition: ...


class PartitionsOf(Mapping[int, Partition]):
    """The partitions of a topic by their numbers; each is opened when it is first asked for."""

    def __init__(self, topic: Partitioned) -> None:
        self._topic = topic
        self._count = topic.partition_count

    def __getitem__(self, number: int) -> Partition:
        return self._topic[number]

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and 0 <= number < self._count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._count))

    def __len__(self) -> int:
        return self._count


class TopicScan(Tabular):
    """A range of a topic's records: an Arrow stream, an iterator of `Record`s, numpy columns or a count.

    Made by `Topic.scan`. Every use begins again at the start of the range, and several may
    run concurrently, in any threads. Memory is bounded, whatever the size of the range, except for `to_numpy`,
    `to_arrow`, `to_pandas` and `to_polars`. Each partition comes in the order of its offsets.

    The partitions of a store come one after the other, and memory is that of one read (``max_bytes``). Those of a
    cluster are read in parallel, from all of their brokers, up to eight at once. They take turns: a read of each,
    then the next of each; a partition that has ended leaves its turn to the next one. Of each partition that is
    being read, one read is ready at most while the next one arrives. So at most 16 reads are held, and together at
    most ``fetch.max.bytes`` of the client, but for single batches that are larger than a read. With ``limit`` the
    partitions of a cluster come one after the other too, nothing is read ahead, and the records are those that a
    store would give.

    A scan can be pickled, and read in another process on the same machine. There its partitions are opened
    read-only, by their directories and settings, when they are first read; the range is the one that was fixed
    here. A use that has begun is not pickled.

    >>> import polars
    >>> with logstore.open(tmp / "data") as store:
    ...     flights = store.create_topic("flights", partitions=2)
    ...     _ = flights.append_many([(b"AA", b'{"delay": 5}'), (b"UA", b'{"delay": 7}')])
    ...     scan = flights.scan(columns=["key", "delay"], value_schema={"delay": "int64"})
    ...     polars.DataFrame(scan)["delay"].sum(), scan.count()
    (12, 2)
    """

    def __init__(
        self,
        topic: str,
        logs: Mapping[int, Partition],
        *,
        partitions: Iterable[int] | int | None = None,
        start: Bound = None,
        end: Bound = None,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        value_schema: ValueSchema | None = None,
        on_error: str = "raise",
        views: bool = False,
        max_bytes: int = DEFAULT_READ_BYTES,
        on_damage: str = "raise",
        at_once: int = 0,
    ) -> None:
        """Fix the range; nothing is read yet but, with ``since``, an index.

        ``start`` is inclusive and by default "earliest", ``end`` exclusive and by default "latest": what a reader
        of ``isolation`` may see now. A partition that a mapping leaves out has the default. A start below 0 counts
        offsets from the visible end of each partition: -10 is the last ten of each, or all.

        ``since`` (inclusive) and ``until`` (exclusive) select by the timestamps of the
        records: milliseconds, aware datetimes, or relative to this call, a timedelta of either sign or a text
        such as ``"-2h"`` (ms, s, m, h, d, w). ``limit`` is the most records that are read of all partitions
        together, in their order. ``columns`` names the Arrow columns, in their order; None means all but
        headers. With ``views`` keys and values are ``binary_view``, not copied out of the bytes read.

        ``value_schema`` is the schema of the values (`logstore.columns.value_schema` has its forms): its fields
        become columns of the same names. They replace the value unless ``columns`` names it. Fields that are not
        requested are not decoded. A value that does not fit the schema raises, or with ``on_error="null"`` gives
        null. A read takes ``max_bytes``, or one batch where that is larger. Damaged bytes raise after the records
        before them; with ``on_damage="skip"`` they are skipped, and `left_out` says what is missing. ``at_once`` is
        how many partitions are read ahead, each by a thread of its own; 0: none.

        Raises:
            UnknownPartitionError: the topic has no such partition.
            OffsetOutOfRangeError: a start or end lies outside of its partition.
            InvalidTimestampError, RecordTypeError: ``since`` or ``until`` is no time.
            ValueError: a column, a word for an offset or a part of the schema is unknown, or ``limit`` no count.
        """
        check_limit(limit)
        self.topic = topic
        self._limit = limit
        self._values_are = value_schema, on_error
        self._isolation = Isolation(isolation)
        self._views = views
        self._at_once = 0 if limit is not None else at_once
        self._decoder: Decoder | None = None
        self.columns = self._decoding(columns, value_schema, on_error)
        chosen = _chosen(topic, logs, partitions)
        starts = _bounds(topic, logs, chosen, "start", start)
        ends = _bounds(topic, logs, chosen, "end", end)
        self._scans: dict[int, RangeScan] = {
            number: logs[number].scan(
                _start(logs[number], starts[number], self._isolation),
                _end(logs[number], ends[number]),
                since=since,
                until=until,
                isolation=self._isolation,
                max_bytes=max_bytes,
                on_damage=on_damage,
            )
            for number in chosen
        }

    def _decoding(
        self, columns: Sequence[str] | None, schema: ValueSchema | None, on_error: str
    ) -> tuple[str, ...]:
        """Check the columns, and prepare a decoder for those that are fields of the values."""
        from logstore.columns._export import ColumnStream

        if schema is None:
            return ColumnStream((), columns).columns
        from logstore.columns.value_schema import decoder_of

        fields, narrowed = decoder_of(schema, on_error)
        names = ColumnStream((), columns, decoder=narrowed(fields)).columns
        self._decoder = narrowed([name for name in names if name in fields])
        return names

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions, in the order in which they are read."""
        return tuple(self._scans)

    @property
    def bounds(self) -> dict[int, tuple[int, int]]:
        """Partition -> (start offset, end offset) as they were fixed; the end is exclusive."""
        return {number: (scan.start_offset, scan.end_offset) for number, scan in self._scans.items()}

    @property
    def left_out(self) -> list[LeftOut]:
        """Return the ranges that the latest use of this scan has skipped so far, with ``on_damage="skip"``."""
        return [each for scan in self._scans.values() for each in scan.left_out]

    def chunks(self) -> Iterator[Batches]:
        """Return the range as runs of whole batches, one read each.

        Raises:
            OffsetOutOfRangeError: records that the scan has not read were deleted, and are not held. The store is
                open read-only, the scan was pickled, or more than 256 segments of a partition were removed.
            CorruptRecordError: a stored batch is damaged; names file and position, and as ``next_offset`` where
                its partition continues. The records before it were returned.
            LogClosedError: the store was closed.
        """
        if self._at_once:
            return read_ahead(
                [scan.chunks for scan in self._scans.values() if scan.start_offset < scan.end_offset], self._at_once
            )
        chunks = itertools.chain.from_iterable(scan.chunks() for scan in self._scans.values())
        return chunks if self._limit is None else limited(chunks, self._limit)

    def __iter__(self) -> Iterator[Record]:
        for chunk in self.chunks():
            yield from chunk

    def values(self) -> Iterator[list[bytes | None]]:
        """Return the values only, in one list for each read."""
        return values_of(self.chunks())

    def batches(self) -> Iterator[ColumnBatch]:
        """Return the range as Arrow record batches (with ``__arrow_c_array__``), at least one for each read."""
        return iter(self._stream())

    def to_numpy(self) -> dict[str, Any]:
        """Return the columns as numpy arrays, with all of the range in memory at once.

        Numbers are arrays of their type and times of ``datetime64``, in UTC; keys, values, texts and headers are
        arrays of objects, with None for null. Numbers, times and booleans of ``value_schema`` are masked arrays,
        masked where they are null. Bytes of a fixed size are of a void type.
        """
        from logstore.columns._export import columns_of
        from logstore.columns.arrays import arrays_of

        fields = () if self._decoder is None else self._decoder.names
        # The types come from here if there is no record.
        empty = columns_of(Batches(b""), self.columns, decoder=self._decoder)
        return arrays_of(itertools.chain([empty], self.batches()), self.columns, fields)

    def count(self) -> int:
        """Count the records of the range: as many as iterating it gives.

        Uses the headers of the batches, without a check or decompression. Only if times bound the range, or a
        transaction in it was aborted, are batches read. A cluster sends them whole, so it is read as by iterating.
        """
        if self._at_once:
            return sum(chunk.count() for chunk in self.chunks())
        total = sum(scan.count() for scan in self._scans.values())
        return total if self._limit is None else min(total, self._limit)

    def _stream(self) -> ColumnStream:
        # Not imported with the store: a reader of records needs no columns.
        from logstore.columns._export import ColumnStream

        return ColumnStream(self.chunks(), self.columns, views=self._views, decoder=self._decoder)

    def __getstate__(self) -> dict[str, Any]:
        # The decoder is not picklable; it is made from the schema again.
        return {name: value for name, value in self.__dict__.items() if name != "_decoder"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._decoder = None
        self.columns = self._decoding(self.columns, *self._values_are)

    def __repr__(self) -> str:
        ranges = ", ".join(f"{number}: {start}..{end}" for number, (start, end) in self.bounds.items())
        return f"<TopicScan {self.topic} {{{ranges}}}>"


def _chosen(topic: str, logs: Mapping[int, Partition], partitions: Iterable[int] | int | None) -> list[int]:
    """Return the numbers of the partitions to read, in the order given; raise if one is unknown."""
    if partitions is None:
        return sorted(logs)
    chosen = [partitions] if isinstance(partitions, int) else list(dict.fromkeys(partitions))
    _check_known(topic, logs, chosen)
    return chosen


def _check_known(topic: str, logs: Mapping[int, Partition], numbers: Iterable[Any]) -> None:
    unknown = [number for number in numbers if number not in logs]
    if unknown:
        raise UnknownPartitionError(
            f"topic {topic!r} has no partition {', '.join(map(str, unknown))}; it has {len(logs)}, numbered from 0"
        )


def _bounds(
    topic: str, logs: Mapping[int, Partition], chosen: list[int], name: str, bound: Bound
) -> dict[int, int | str]:
    """Return the bound of each chosen partition: an offset or a known word."""
    default = "earliest" if name == "start" else "latest"
    if isinstance(bound, Mapping):
        _check_known(topic, logs, bound)
        found = {number: bound.get(number, default) for number in chosen}
    else:
        found = dict.fromkeys(chosen, default if bound is None else bound)
    for value in found.values():
        if isinstance(value, bool) or not (isinstance(value, int) or value in _WORDS):
            raise ValueError(
                f"{name} is an offset, 'earliest', 'latest' or a mapping of partitions to these, found {value!r}; "
                "since and until choose by time"
            )
    return found


def _start(log: Partition, bound: int | str, isolation: Isolation) -> int | None:
    if isinstance(bound, int):
        return bound
    return None if bound == "earliest" else log.end_offset(isolation)


def _end(log: Partition, bound: int | str) -> int | None:
    # None means the end that `Partition.scan` looks up once, for a start that counts from it too.
    if isinstance(bound, int):
        return bound
    return None if bound == "latest" else log.log_start_offset
