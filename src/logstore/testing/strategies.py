"""Hypothesis strategies for values that a store accepts, and for values that it must refuse.

This module needs `hypothesis`, which logstore itself does not need. logstore accepts every value that a strategy
generates, unless the strategy's name begins with ``bad``.
"""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st

from logstore.batch._encode import encode
from logstore.config.log import LogConfig
from logstore.config.schema import Rule, keys_of
from logstore.errors import InvalidSettingError
from logstore.records import Codec

Strategy = st.SearchStrategy

#: A record as `Topic.append_many` accepts it: (key, value, timestamp in ms, headers).
RecordTuple = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]

_LETTERS = string.ascii_letters + string.digits + "._-"

#: Codecs that need no optional library; that for snappy may not be installed.
CODECS = (Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD)

#: Smallest values in workable settings: smaller ones would refuse or delete most records.
_LEAST = {
    "segment.bytes": 16_384,
    "segment.index.bytes": 1_024,
    "max.message.bytes": 8_192,
    "message.timestamp.before.max.ms": 2**62,
    "message.timestamp.after.max.ms": 2**62,
    "retention.ms": 2**62,
    "retention.bytes": 2**62,
    "logstore.decompressed.max.bytes": 1 << 20,
}
_MOST = {"segment.bytes": 1 << 20, "logstore.tail.bytes": 1 << 20}
_LEFT_OUT = {
    "cleanup.policy",  # compaction needs keys
    "preallocate",  # it would reserve 1 GiB segments on the machine's disk
    "compression.type",  # added by `log_settings`, without codecs that may be missing
    "logstore.replicated",  # such a log takes no appends without a node
    "logstore.offset.mode",  # with offsets that are positions, compression is refused
}


def keys(*, max_size: int = 20) -> Strategy[bytes | None]:
    """Generate keys: often one of a few, as in practice, and sometimes None."""
    return st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"AA"]), st.binary(max_size=max_size))


def values(*, max_size: int = 200) -> Strategy[bytes | None]:
    """Generate values: None (a tombstone), empty, random or easy to compress."""
    repeated = st.builds(
        lambda part, times: (part * times)[:max_size], st.binary(min_size=1, max_size=8), st.integers(1, 50)
    )
    return st.one_of(st.none(), st.binary(max_size=max_size), repeated)


def headers(*, max_size: int = 3) -> Strategy[tuple[tuple[str, bytes | None], ...]]:
    """Generate the headers of one record: names may be empty and may occur twice."""
    name = st.text(st.characters(codec="utf-8"), max_size=8)
    return st.lists(st.tuples(name, st.one_of(st.none(), st.binary(max_size=20))), max_size=max_size).map(tuple)


def timestamps(*, near: int = 1_767_225_600_000) -> Strategy[int]:
    """Generate milliseconds since 1970: within 100 s of ``near``, not in order, sometimes 0."""
    return st.one_of(st.integers(near - 100_000, near + 100_000), st.just(0))


def records(*, max_value_size: int = 200) -> Strategy[RecordTuple]:
    """Generate one record, for `append_many`."""
    return st.tuples(keys(), values(max_size=max_value_size), timestamps(), headers())


def record_lists(
    *, min_size: int = 1, max_size: int = 20, max_value_size: int = 200
) -> Strategy[list[RecordTuple]]:
    """Generate records that are appended together."""
    return st.lists(records(max_value_size=max_value_size), min_size=min_size, max_size=max_size)


def batches(*, codecs: tuple[Codec, ...] = CODECS, max_size: int = 20) -> Strategy[bytes]:
    """Generate a record batch v2 with a valid CRC and base offset 0, for `LogReplica.append_batch` and parsers."""
    return st.builds(
        lambda rows, codec: bytes(encode(rows, codec=codec)),
        record_lists(max_size=max_size),
        st.sampled_from(codecs),
    )


def topic_names() -> Strategy[str]:
    """Generate topic names that Kafka's rule allows; two may have one name in metrics (``a.b``, ``a_b``)."""
    return st.text(_LETTERS, min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))


def bad_topic_names() -> Strategy[str]:
    """Generate invalid topic names, including names that would be a path outside the store."""
    outside = st.characters(codec="utf-8", exclude_characters=_LETTERS)
    misplaced = st.builds(
        lambda name, at, bad: name[:at] + bad + name[at:], topic_names(), st.integers(0, 249), outside
    )
    return st.one_of(
        st.sampled_from(["", ".", "..", "../up", "a/b", "/abs", "a\0b", "a\nb", "flüge", "a b"]),
        st.text(_LETTERS, min_size=250, max_size=400),
        misplaced,
    )


def partition_counts(*, most: int = 8) -> Strategy[int]:
    """Generate numbers of partitions, from 1 to ``most``."""
    return st.integers(1, most)


def log_settings(*, workable: bool = True) -> Strategy[dict[str, Any]]:
    """Generate settings of a topic by Kafka's dotted keys, each in its range and all accepted together.

    With ``workable`` records of some kilobytes fit, none are deleted or compacted, and no timestamp of
    `timestamps` is refused. Without it every allowed value is possible.
    """
    rules = {key: rule for key, rule in keys_of(LogConfig).items() if not (workable and key in _LEFT_OUT)}
    choices = {key: _setting(key, rule, workable) for key, rule in rules.items()}
    if workable:
        choices["compression.type"] = st.sampled_from(["producer", "none", "gzip", "lz4", "zstd"])
    drawn: Strategy[dict[str, Any]] = st.fixed_dictionaries({}, optional=choices)
    return drawn.filter(_is_accepted)


def _setting(key: str, rule: Rule, workable: bool) -> Strategy[Any]:
    if rule.boolean:
        return st.booleans()
    if rule.words:
        return st.sampled_from(rule.words)
    assert rule.least is not None
    assert rule.most is not None
    least = max(rule.least, _LEAST.get(key, 0)) if workable else rule.least
    most = min(rule.most, _MOST.get(key, rule.most)) if workable else rule.most
    if isinstance(rule.most, float):
        return st.floats(float(least), float(most))
    return st.integers(int(least), int(most))


def _is_accepted(settings: dict[str, Any]) -> bool:
    try:
        LogConfig.of(settings)
    except InvalidSettingError:
        return False
    return True
