"""Every parser of bytes that another program may have written, and how it is fuzzed.

A target makes an input from a `Mutator` alone and hands it to the parser: no input depends on what
the parser did with another, so (target, seed, number) names an input for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from logstore.errors import (
    ConfigError,
    CorruptRecordError,
    NotALogError,
    ProtocolError,
    RecordError,
    UnexpectedOffsetError,
)
from logstore.records import Codec
from tests.fuzz import batches, facts
from tests.fuzz.mutate import Mutator

Make = Callable[[Mutator], bytes]


@dataclass(frozen=True)
class Target:
    """One parser. ``prepare`` builds the seeds, once, and gives what makes inputs from them."""

    name: str
    parser: str  #: what is fuzzed, for people
    prepare: Callable[[], Make]
    read: Callable[[bytes], None]
    refusals: tuple[type[Exception], ...] = ()  #: the errors that its documentation names


def _of_batches(codec: int) -> Make:
    plain = batches.plain_seeds()
    packed = plain if codec == Codec.NONE else batches.compressed_seeds(codec)
    others = [seed.data for seed in packed if len(seed.data) < 4_096]

    def make(m: Mutator) -> bytes:
        if codec and m.chance(0.4):
            return batches.changed_inside(m, plain, others, codec)
        return batches.changed(m, packed, others)

    return make


def _of_runs() -> Make:
    seeds = [seed for seed in batches.plain_seeds() if len(seed.data) < 2_000]
    for codec in (Codec.LZ4, Codec.ZSTD):
        seeds += [seed for seed in batches.compressed_seeds(codec) if len(seed.data) < 2_000][:3]
    return partial(_make_run, seeds=seeds, others=[seed.data for seed in seeds])


def _make_run(m: Mutator, seeds: list[batches.Seed], others: list[bytes]) -> bytes:
    return batches.changed_run(m, seeds, others)


def _of_logs() -> Make:
    from tests.fuzz.segments import changed_log

    make = _of_runs()
    return lambda m: changed_log(m, make(m))


def _of_indexes() -> Make:
    from tests.fuzz.segments import changed_indexes, index_seeds

    seeds = index_seeds()
    return lambda m: changed_indexes(m, seeds)


def _of_entries() -> Make:
    from tests.fuzz.segments import change_entries, index_seeds

    seeds = index_seeds()

    def make(m: Mutator) -> bytes:
        which = m.below(2)
        data = bytearray(seeds[which])
        change_entries(m, data, ((0, 8), (8, 4)) if which else ((0, 4), (4, 4)), 12 if which else 8)
        return bytes(data)

    return make


def _of_arrays() -> Make:
    from tests.fuzz.arrow import changed_arrays

    return changed_arrays


def _of_json() -> Make:
    from tests.fuzz.payload import changed_json, json_seeds

    seeds = json_seeds()
    return lambda m: changed_json(m, seeds)


def _of_messages() -> Make:
    from tests.fuzz.protocol import changed_message, message_seeds

    seeds = message_seeds()
    return lambda m: changed_message(m, seeds)


def _of_frames() -> Make:
    from tests.fuzz.protocol import changed_frame, frame_seeds

    seeds = frame_seeds()
    return lambda m: changed_frame(m, seeds)


def _of_requests() -> Make:
    from tests.fuzz.broker import changed_request, request_seeds

    seeds = request_seeds()
    return lambda m: changed_request(m, seeds)


def _read_later(module: str, name: str) -> Callable[[bytes], None]:
    """A reader whose module is imported when it is first used: pyarrow and the files cost time."""
    found: list[Callable[[bytes], None]] = []

    def read(data: bytes) -> None:
        if not found:
            found.append(getattr(__import__(f"tests.fuzz.{module}", fromlist=[name]), name))
        found[0](data)

    return read


def _of_bytes(
    seeds: Callable[[], list[bytes]], change: Callable[[Mutator, list[bytes]], bytes]
) -> Callable[[], Make]:
    def prepare() -> Make:
        made = seeds()
        return lambda m: change(m, made)

    return prepare


def _any_change(m: Mutator, seeds: list[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    m.changes(data, seeds)
    return bytes(data)


def _targets() -> list[Target]:
    out = []
    for codec in Codec:
        name = codec.name.lower()
        out.append(
            Target(
                "batch" if codec == Codec.NONE else f"batch-{name}",
                f"record batch v2, codec {name}: header, CRC, records, headers, stamping",
                partial(_of_batches, codec),
                batches.read_batch,
                (RecordError,),
            )
        )
        if codec != Codec.NONE:
            out.append(
                Target(
                    f"frame-{name}",
                    f"the {name} frames of a batch",
                    _of_bytes(partial(batches.frame_seeds, codec), _any_change),
                    partial(batches.read_frame, codec),
                    (RecordError,),
                )
            )
    record = (RecordError,)
    out += [
        Target("run", "a run of batches: readers, bounds, Arrow columns", _of_runs, batches.read_run, record),
        Target(
            "compaction",
            "a run of batches through the map of keys and the filter of a compaction",
            _of_runs,
            _read_later("compaction", "read_compaction"),
            record,
        ),
        Target(
            "log", "a .log file: scan, find, read, follow", _of_logs, _read_later("segments", "read_log"), record
        ),
        Target(
            "indexes",
            ".index and .timeindex beside a good log",
            _of_indexes,
            _read_later("segments", "read_beside_indexes"),
        ),
        Target("entries", "entries of .index and .timeindex", _of_entries, _read_later("segments", "read_entries")),
        Target(
            "arrow",
            "Arrow C data import",
            _of_arrays,
            _read_later("arrow", "read_arrays"),
            (*record, UnexpectedOffsetError),
        ),
        Target("json", "JSON in values, as columns", _of_json, _read_later("payload", "read_json"), record),
    ]
    for name, parser, seeds, change, read in (
        ("txnindex", ".txnindex", facts.aborted_seeds, facts.changed_aborted, facts.read_aborted),
        (
            "snapshot",
            "Kafka's .snapshot of producers",
            facts.snapshot_seeds,
            facts.changed_snapshot,
            facts.read_snapshot,
        ),
        ("producers", "logstore.producers", facts.producers_seeds, facts.changed_producers, facts.read_producers),
        ("recovery", "the slots of logstore.recovery", facts.slot_seeds, facts.changed_slots, facts.read_slots),
        ("published", "logstore.published", facts.published_seeds, facts.changed_published, facts.read_published),
        (
            "compacted",
            "logstore.compacted",
            facts.compacted_seeds,
            facts.changed_compacted,
            facts.read_compacted,
        ),
        ("epochs", "leader-epoch-checkpoint", facts.epoch_seeds, facts.changed_text, facts.read_epochs),
    ):
        out.append(Target(name, parser, _of_bytes(seeds, change), read))
    out += [
        Target(
            "offsets",
            "the root's checkpoints of offsets",
            _of_bytes(facts.offsets_seeds, facts.changed_text),
            facts.read_offsets,
            (CorruptRecordError,),
        ),
        Target(
            "names",
            "names of partitions and of their files",
            _of_bytes(facts.name_seeds, _any_change),
            facts.read_name,
            (NotALogError,),
        ),
        Target(
            "config",
            "settings as the text of a properties file",
            _of_bytes(facts.config_seeds, facts.changed_config),
            facts.read_config,
            (ConfigError,),
        ),
        Target(
            "message",
            "bodies of Kafka's protocol, every message and version",
            _of_messages,
            _read_later("protocol", "read_message"),
            (ProtocolError,),
        ),
        Target(
            "frame",
            "requests as a broker gets them: size, header, body",
            _of_frames,
            _read_later("protocol", "read_frame"),
            (ProtocolError,),
        ),
        Target(
            "broker",
            "a broker that runs: each key with random bodies, good requests that were changed",
            _of_requests,
            _read_later("broker", "send_request"),
            (ProtocolError,),
        ),
    ]
    return out


TARGETS = {target.name: target for target in _targets()}
