"""The settings of one log: Kafka's keys, and nothing that is not understood."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from logstore import Ack, Codec, LogConfig
from logstore.config.log import DEFAULTS, SYNONYMS, WITHOUT_EFFECT
from logstore.errors import ConfigError, InvalidSettingError, UnknownSettingError
from logstore.records import TimestampType


def test_every_field_is_a_key_with_its_dots_as_underscores():
    for spec in dataclasses.fields(LogConfig):
        key = spec.name.replace("_", ".")
        assert key in DEFAULTS or f"logstore.{key}" in DEFAULTS
    assert len(DEFAULTS) == len(dataclasses.fields(LogConfig))


@pytest.mark.row("K1")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("segment.bytes", 1 << 30),
        ("segment.ms", 604_800_000),
        ("segment.index.bytes", 10 << 20),
        ("index.interval.bytes", 4_096),
        ("max.message.bytes", 1_048_588),
        ("flush.messages", 2**63 - 1),
        ("flush.ms", 2**63 - 1),
        ("retention.ms", -1),  # Kafka's is seven days: here records are kept unless told otherwise
        ("retention.bytes", -1),
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("message.timestamp.after.max.ms", 3_600_000),
        ("producer.id.expiration.ms", 86_400_000),
        ("logstore.ack", "written"),
    ],
)
def test_defaults_are_kafkas(key, value):
    assert DEFAULTS[key] == value
    assert dict(LogConfig().items())[key] == value


@pytest.mark.row("K1")
def test_unknown_keys_are_all_named_with_the_nearest_known_one():
    with pytest.raises(UnknownSettingError) as caught:
        LogConfig.of({"segment.byte": 1, "log.retention.m": 2, "utterly wrong": 3, "segment.ms": 5})
    problems = caught.value.problems
    assert list(problems) == ["segment.byte", "log.retention.m", "utterly wrong"]
    assert "the nearest name is segment.bytes" in problems["segment.byte"]
    assert "the nearest name is log.retention.ms" in problems["log.retention.m"]
    assert "the nearest name is" not in problems["utterly wrong"]
    assert all(key in str(caught.value) for key in problems)
    assert (caught.value.code, isinstance(caught.value, ValueError)) == (40, True)


@pytest.mark.row("K1")
def test_values_out_of_range_are_all_named_with_what_is_allowed():
    with pytest.raises(InvalidSettingError) as caught:
        LogConfig.of({"segment.bytes": 60, "compression.type": "rar", "retention.ms": -2, "preallocate": "perhaps"})
    problems = caught.value.problems
    assert set(problems) == {"segment.bytes", "compression.type", "retention.ms", "preallocate"}
    assert "61 to 2147483647" in problems["segment.bytes"]
    assert "zstd" in problems["compression.type"]
    assert "true or false" in problems["preallocate"]
    assert "'rar'" in str(caught.value)


def test_wrong_values_are_named_beside_unknown_keys():
    with pytest.raises(UnknownSettingError) as caught:
        LogConfig.of({"segment.byte": 1, "retention.ms": "soon"})
    assert isinstance(caught.value, ConfigError)
    assert set(caught.value.problems) == {"segment.byte", "retention.ms"}


BOUNDS = [
    ("segment.bytes", 61, 2**31 - 1),
    ("segment.ms", 1, 2**63 - 1),
    ("segment.jitter.ms", 0, 2**63 - 1),
    ("segment.index.bytes", 4, 2**31 - 1),
    ("index.interval.bytes", 0, 2**31 - 1),
    ("max.message.bytes", 0, 2**31 - 1),
    ("retention.ms", -1, 2**63 - 1),
    ("retention.bytes", -1, 2**63 - 1),
    ("flush.messages", 1, 2**63 - 1),
    ("flush.ms", 0, 2**63 - 1),
    ("compression.zstd.level", -131_072, 22),
    ("compression.lz4.level", 1, 17),
    ("min.cleanable.dirty.ratio", 0.0, 1.0),
]


@pytest.mark.parametrize(("key", "least", "most"), BOUNDS)
def test_both_ends_of_a_range_are_allowed_and_nothing_beyond(key, least, most):
    for value in (least, most):
        assert dict(LogConfig.of({key: value}).items())[key] == value
        assert dict(LogConfig.of({key: str(value)}).items())[key] == value
    step = 0.01 if isinstance(most, float) else 1
    for value in (least - step, most + step):
        with pytest.raises(InvalidSettingError):
            LogConfig.of({key: value})


@pytest.mark.parametrize(
    "value",
    [None, "", "1x", "1.5", "k", "10 GiB of it", "7d", "١٢٣a", 1.5, True, float("nan"), float("inf"), b"1", [1]],
)
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(InvalidSettingError, match="whole number"):
        LogConfig(segment_bytes=value)


@pytest.mark.parametrize("value", ["nan", "inf", -0.1, 1.1, None])
def test_what_is_no_ratio_is_refused(value):
    with pytest.raises(InvalidSettingError):
        LogConfig(min_cleanable_dirty_ratio=value)


def test_text_is_read_as_kafkas_tools_write_it():
    config = LogConfig.of({"segment.bytes": "4096", "preallocate": "TRUE", "cleanup.policy": " Compact , delete "})
    assert (config.segment_bytes, config.preallocate, config.cleanup_policy) == (4_096, True, "compact,delete")
    assert config.compacts
    assert not LogConfig().compacts


@pytest.mark.parametrize("synonym", sorted(SYNONYMS))
def test_broker_wide_names_mean_the_same(synonym):
    key = SYNONYMS[synonym]
    value = {"preallocate": True, "cleanup.policy": "compact", "message.timestamp.type": "logappendtime"}.get(
        key, 1
    )
    value = 100 if key in ("segment.bytes", "segment.index.bytes") else value
    assert LogConfig.of({synonym: value}).changed() == LogConfig.of({key: value}).changed()


def test_keys_without_effect_are_accepted_and_told_once(caplog):
    with caplog.at_level(logging.INFO, "logstore.config.log"):
        config = LogConfig.of(dict.fromkeys(sorted(WITHOUT_EFFECT), "x"))
    assert config == LogConfig()
    (record,) = caplog.records
    assert all(key in record.getMessage() for key in WITHOUT_EFFECT)


def test_fields_win_over_settings_and_a_config_may_be_built_upon():
    config = LogConfig.of({"segment.bytes": 100, "flush.ms": 5}, segment_bytes=200)
    assert config.changed() == {"segment.bytes": 200, "flush.ms": 5}
    assert LogConfig.of(config, flush_ms=9).changed() == {"segment.bytes": 200, "flush.ms": 9}
    assert config.replace(flush_ms=7).changed() == {"segment.bytes": 200, "flush.ms": 7}
    assert config.changed() == {"segment.bytes": 200, "flush.ms": 5}
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.flush_ms = 1
    with pytest.raises(UnknownSettingError):
        config.replace(flush=1)


def test_words_have_meanings():
    config = LogConfig.of({"logstore.ack": "synced", "compression.type": "uncompressed"}, compression_zstd_level=7)
    assert (config.default_ack, config.codec) == (Ack.SYNCED, Codec.NONE)
    assert LogConfig().codec is None
    assert LogConfig(compression_type="zstd").codec is Codec.ZSTD
    assert (config.level_of(Codec.ZSTD), config.level_of(Codec.SNAPPY)) == (7, 0)
    assert LogConfig(message_timestamp_type="LogAppendTime").timestamp_type is TimestampType.LOG_APPEND_TIME
