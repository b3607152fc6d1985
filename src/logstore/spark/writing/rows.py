"""Encoder of Arrow rows as record batches, by topic and partition.

Compiled code copies the rows of a task from Arrow's buffers to one encoder per partition; no row becomes a Python
object. An encoder that holds enough gives its batches to an *outlet*, a staged file or a broker. So a task needs
the same memory however much it writes. This module uses neither Spark nor files. It imports the compiled core,
settings and errors, and pyarrow only where it reads rows. A `Rows` belongs to one task's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from logstore.batch._encode import Encoder
from logstore.client.backend.batch_appends import BatchRules
from logstore.columns._partition_rows import RowPartitioner
from logstore.config.log import LogConfig, check_timestamps
from logstore.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    LogstoreError,
    UnexpectedOffsetError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.records import Codec, TimestampType
from logstore.spark.writing.columns import REPLAYED

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

#: An encoder that holds this much is flushed; a batch is then large enough for every codec and reader.
FLUSH_BYTES = 512 << 10
#: Limit of all encoders of a task together; beyond it the largest ones are flushed.
TASK_BYTES = 64 << 20

#: How to order the rows of a replay.
_SORTED = 'repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")'


class TargetTopic(NamedTuple):
    """Properties of a topic that encoding for it needs. Can be pickled."""

    name: str
    id: str
    partition_count: int
    config: LogConfig
    codec: Codec
    limits: tuple[tuple[str, int], ...]  #: of a batch in bytes, by setting

    @classmethod
    def of(
        cls, name: str, topic_id: str, partition_count: int, rules: BatchRules, codec: Codec | None
    ) -> TargetTopic:
        """Make a target from the topic's rules; its own codec, if set, overrides the writer's ``codec``."""
        config = rules.config
        chosen = config.codec if config.codec is not None else (codec or Codec.NONE)
        return cls(name, topic_id, partition_count, config, chosen, rules.limits)

    @property
    def append_time(self) -> bool:
        return self.config.timestamp_type is TimestampType.LOG_APPEND_TIME


#: Called with topic, partition and an encoder whose batches are finished. It must keep no reference to the encoder.
Outlet = Callable[[TargetTopic, int, Encoder], None]


class Keyless(NamedTuple):
    """Partitioning of rows that name no partition: Kafka's ``partitioner.class``, ``partitioner.ignore.keys``."""

    ignore_keys: bool = False  #: keys do not choose partitions
    in_turn: bool = (
        False  #: rows placed by no key go to the partitions in turn; if false, to one until its batch is full
    )


BY_KEY = Keyless()


# --- rows --------------------------------------------------------------------------------------


@dataclass(eq=False)
class Rows:
    """Encoder of one task's rows: takes Arrow batches, gives whole record batches by topic and partition.

    ``targets`` are the existing topics. With ``topic`` all rows are written to that one, whatever their column
    says. By ``seed``, tasks begin with different partitions for rows without key. With ``replay`` rows keep offset
    and timestamp. An encoder that holds ``flush_bytes`` (`FLUSH_BYTES`) is passed to ``outlet``.

    Owns: an encoder for each partition that got rows.
    """

    targets: Mapping[str, TargetTopic]
    outlet: Outlet
    _: KW_ONLY
    topic: str | None = None
    keyless: Keyless = BY_KEY
    replay: bool = False
    seed: int = 0
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    flush_bytes: int = field(default_factory=lambda: FLUSH_BYTES)
    _shares: dict[str, _Share] = field(default_factory=dict, init=False)

    def add(self, batch: pa.RecordBatch) -> None:
        """Encode the rows of one Arrow batch.

        Raises:
            LogstoreError: a row cannot be written to its topic and partition. The caller must drop the batches
                that the outlet has received.
        """
        if batch.num_rows == 0:
            return
        try:
            for share, rows in self._by_topic(batch):
                share.add(rows)
        except UnexpectedOffsetError as error:
            raise UnexpectedOffsetError(
                f"{error}: a replay needs the rows of a partition in one task and in order; write "
                f"df.{_SORTED}, and each row once"
            ) from None
        self._relieve()

    def finish(self) -> None:
        """Pass the remaining batches to the outlet."""
        for share in self._shares.values():
            share.flush(0)

    def _relieve(self) -> None:
        """Flush encoders that hold enough, and the largest ones while all together hold too much."""
        total = sum(share.flush(self.flush_bytes) for share in self._shares.values())
        least = self.flush_bytes
        while total > TASK_BYTES and least:
            least //= 2
            total = sum(share.flush(least) for share in self._shares.values())

    def _by_topic(self, batch: pa.RecordBatch) -> Iterable[tuple[_Share, pa.RecordBatch]]:
        if self.topic is not None:
            return [(self._share(self.topic), batch)]
        names = batch.column("topic")
        if names.null_count:
            raise InvalidRecordError(
                f"{names.null_count} rows have no topic; fill the column topic, or write with "
                '.option("topic", name)'
            )
        unique = names.unique().to_pylist()
        unknown = sorted(name for name in unique if name not in self.targets)
        if unknown:
            raise UnknownTopicError(unknown_topics(unknown, self.targets))
        if len(unique) == 1:
            return [(self._share(unique[0]), batch)]
        import numpy as np

        places = names.dictionary_encode()
        words = places.dictionary.to_pylist()
        codes = places.indices.to_numpy(zero_copy_only=False)
        return [(self._share(word), _rows(batch, np.flatnonzero(codes == code))) for code, word in enumerate(words)]

    def _share(self, topic: str) -> _Share:
        share = self._shares.get(topic)
        if share is None:
            share = self._shares[topic] = _Share(self.targets[topic], self)
        return share


def _rows(batch: pa.RecordBatch, places: np.ndarray) -> pa.RecordBatch:
    """Return some rows of a batch, in their order; without a copy if they are adjacent."""
    if places[-1] - places[0] + 1 == len(places):
        return batch.slice(int(places[0]), len(places))
    import pyarrow as pa

    return batch.take(pa.array(places))


def unknown_topics(names: Iterable[str], known: Iterable[str], where: str = "") -> str:
    """Return the message for missing topics of a store, or of the brokers that ``where`` names."""
    missing = ", ".join(map(repr, names))
    if where:
        return f"topic {missing} does not exist {where}; create it there first, such as with kafka-topics --create"
    there = sorted(known)
    listed = ", ".join(there[:10]) + (", …" if len(there) > 10 else "") if there else "none"
    return (
        f"topic {missing} does not exist (there are: {listed}); create it with logstore topic create NAME "
        "--partitions N --dir PATH, or store.create_topic(NAME, partitions=N)"
    )


class _Share:
    """The rows of one topic, of all the rows of a task.

    Owns: the encoders of its partitions.
    """

    def __init__(self, target: TargetTopic, task: Rows) -> None:
        self.target = target
        self._task = task
        self._encoders: dict[int, Encoder] = {}
        self._in_turn = task.seed % target.partition_count
        self._partitioner = RowPartitioner(target.partition_count, self._in_turn, self._begin)

    def _begin(self, partition: int) -> Encoder:
        target = self.target
        encoder = self._encoders[partition] = Encoder().begin(
            timestamp_ms=self._task.clock(),
            codec=target.codec,
            level=target.config.level_of(target.codec),
            limits=target.limits,
            append_time=target.append_time and not self._task.replay,
            keep_offsets=self._task.replay,
        )
        return encoder

    def add(self, rows: pa.RecordBatch) -> None:
        try:
            self._partitioner.add_arrow(rows, self._partitions(rows))
        except UnknownPartitionError as error:
            raise UnknownPartitionError(f"topic {self.target.name!r}: {error}") from None
        except LogstoreError as error:
            error.add_note(f"for topic {self.target.name!r}")
            raise

    def _partitions(self, rows: pa.RecordBatch) -> Any:
        """Return the partition of each row, -1 where its key decides; None if keys decide for all rows."""
        named = rows.column("partition") if "partition" in rows.schema.names else None
        if self._task.replay:
            self._check_replay(rows)
        if named is not None and named.null_count == len(named):
            named = None
        if named is None and not self._task.keyless.ignore_keys and not self._task.keyless.in_turn:
            return None
        import numpy as np

        if named is None:
            chosen = np.full(rows.num_rows, -1, np.int32)
        else:
            chosen = named.fill_null(-1).to_numpy(zero_copy_only=False)
            # From here on -1 means "by key": a negative partition named by a row would not be noticed.
            if named.null_count != int((chosen < 0).sum()):
                raise UnknownPartitionError(
                    f"partitions are 0 to {self.target.partition_count - 1}, found a negative one"
                )
        if self._task.keyless.ignore_keys or self._task.keyless.in_turn:
            chosen = self._choose(rows, chosen)
        return np.ascontiguousarray(chosen, np.int32)

    def _choose(self, rows: pa.RecordBatch, chosen: np.ndarray) -> np.ndarray:
        """Choose partitions for rows that the built-in partitioning by key would place otherwise."""
        import numpy as np

        free = chosen < 0
        if not self._task.keyless.ignore_keys and "key" in rows.schema.names:
            free &= rows.column("key").is_null().to_numpy(zero_copy_only=False)
        if not self._task.keyless.in_turn:
            return np.where(free, np.int32(self._partitioner.keyless), chosen)
        count = int(free.sum())
        chosen = chosen.copy()
        chosen[free] = (np.arange(count) + self._in_turn) % self.target.partition_count
        self._in_turn = (self._in_turn + count) % self.target.partition_count
        return chosen

    def _check_replay(self, rows: pa.RecordBatch) -> None:
        for name in REPLAYED:
            empty = rows.column(name).null_count
            if empty:
                raise InvalidRecordError(
                    f"{empty} rows for topic {self.target.name!r} have no {name}; a replay keeps it, so each row "
                    "needs one"
                )

    def flush(self, least: int) -> int:
        """Flush the encoders that hold ``least`` bytes or more; return how many bytes the others hold."""
        left = 0
        for partition, encoder in self._encoders.items():
            held = encoder.pending_bytes
            if not held:
                continue
            if held < least:
                left += held
                continue
            encoder.finish()
            self._check(encoder)
            self._task.outlet(self.target, partition, encoder)
            encoder.renew(self._task.clock())
            if partition == self._partitioner.keyless:
                # Changing the partition before its batch is full would make batches of rows without key small.
                self._partitioner.keyless = (partition + 1) % self.target.partition_count
        return left

    def _check(self, encoder: Encoder) -> None:
        target = self.target
        if encoder.null_keys and target.config.compacts:
            raise InvalidRecordError(
                f"{encoder.null_keys} rows without key for topic {target.name!r}, which keeps the newest record of "
                "each key (cleanup.policy=compact); give each row a key"
            )
        if target.append_time or self._task.replay:
            return
        least, most = encoder.min_timestamp_ms, encoder.max_timestamp_ms
        try:
            check_timestamps(least, most, target.config, self._task.clock())
        except InvalidTimestampError as error:
            raise InvalidTimestampError(f"topic {target.name!r}: {error}") from None
