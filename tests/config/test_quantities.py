"""Durations, sizes and times in words: one meaning each, wherever they may be written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import logstore
from logstore import ConsumerConfig, LogConfig, ProducerConfig, StoreConfig
from logstore.config.log import canonical
from logstore.config.quantities import duration_ms, size_bytes, time_ms, zone_of
from logstore.config.schema import fields_of, key_of
from logstore.errors import InvalidSettingError

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("7d", 7 * DAY_MS),
        ("7 days", 7 * DAY_MS),
        ("1w", 7 * DAY_MS),
        ("12h", 43_200_000),
        ("1.5h", 5_400_000),
        ("15m", 900_000),
        ("15 min", 900_000),
        ("30s", 30_000),
        ("500ms", 500),
        ("500", 500),
        ("1us", 1),  # not zero, which may mean "at once"
        ("0.0001s", 1),
        ("9223372036854775807ms", 2**63 - 1),
    ],
)
def test_a_duration_is_a_number_with_its_unit(word, expected):
    assert duration_ms(word) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("10GiB", 10 << 30),
        ("10 gib", 10 << 30),
        ("10g", 10 << 30),
        ("10GB", 10 << 30),
        ("1.5MiB", 3 << 19),
        ("4k", 4096),
        ("4096", 4096),
        ("4096b", 4096),
        ("2TiB", 2 << 40),
    ],
)
def test_a_size_is_a_number_with_a_power_of_1024(word, expected):
    assert size_bytes(word) == expected


@pytest.mark.parametrize("word", ["", "d", "7y", "-7d", "7 d 3", "1.5", "1e3s", "٧d", "7d7h", "1,5h"])
def test_what_is_no_duration_is_refused(word):
    with pytest.raises(ValueError, match="expected a time such as 7d"):
        duration_ms(word)


@pytest.mark.parametrize("word", ["", "g", "7x", "-1k", "1.5", "10 Gi B", "7ib"])
def test_what_is_no_size_is_refused(word):
    with pytest.raises(ValueError, match="expected a number of bytes"):
        size_bytes(word)


def test_a_time_without_a_zone_is_of_the_zone_that_is_given():
    moment = datetime(2026, 11, 2, 10, tzinfo=UTC)
    ms = int(moment.timestamp() * 1000)
    assert time_ms("2026-11-02 10:00", 0) == ms
    assert time_ms("2026-11-02T11:00:00+01:00", 0, zone_of("Asia/Tokyo")) == ms
    assert time_ms("2026-11-02 19:00", 0, zone_of("Asia/Tokyo")) == ms
    assert time_ms("2026-11-02 12:30", 0, zone_of("+02:30")) == ms
    # The offset of a zone is that of the day: summer in one, winter in the other.
    berlin = zone_of("Europe/Berlin")
    assert time_ms("2026-11-02 11:00", 0, berlin) == ms
    assert time_ms("2026-07-02 12:00", 0, berlin) == int(datetime(2026, 7, 2, 10, tzinfo=UTC).timestamp() * 1000)


def test_the_zone_of_the_machine_is_called_local(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert datetime(2026, 1, 1, tzinfo=zone_of("local")).utcoffset() == timedelta(hours=9)
    monkeypatch.delenv("TZ")
    assert datetime(2026, 1, 1, tzinfo=zone_of("local")).utcoffset() is not None


@pytest.mark.parametrize("name", ["", "Nowhere/Land", "../UTC", "+25:00", "2h", "/etc/localtime"])
def test_a_zone_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match="expected a time zone such as"):
        zone_of(name)


# --- settings ----------------------------------------------------------------------------------


def test_every_setting_that_counts_time_or_bytes_takes_words():
    words = {"ms": ("2s", 2_000), "minutes": ("2h", 120), "bytes": ("64KiB", 65_536)}
    units = {}
    for cls in (LogConfig, StoreConfig, ProducerConfig, ConsumerConfig):
        for spec in fields_of(cls):
            key, rule = key_of(spec), spec.metadata["rule"]
            units[key] = rule.unit
            if rule.unit:
                word, expected = words[rule.unit]
                assert getattr(cls.of({key: word}), spec.name) == expected, key
                assert getattr(cls(**{spec.name: word}), spec.name) == expected, key
                assert getattr(cls.of({key: str(expected)}), spec.name) == expected, key
    counted = (".ms", ".bytes", ".minutes", ".size", ".memory", ".bytes.per.second")
    assert [key for key, unit in units.items() if not unit and key.endswith(counted)] == []


def test_words_mean_the_same_by_every_name_and_numbers_what_kafka_says():
    for name in (
        "retention.ms",
        "retention_ms",
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ):
        assert LogConfig.of({name: "7d"}).retention_ms == 7 * DAY_MS, name
    assert LogConfig.of({"log.retention.hours": "7"}).retention_ms == 7 * 3_600_000
    assert LogConfig.of({"log.retention.hours": -1}).retention_ms == -1
    assert LogConfig.of({"retention.ms": "7"}).retention_ms == 7
    assert StoreConfig.of({"offsets.retention.minutes": "7d"}).offsets_retention_minutes == 10_080
    assert StoreConfig.of({"logstore.disk.budget": "10GiB"}).disk_budget == 10 << 30
    assert StoreConfig.of({"logstore.disk.budget": "80%"}).disk_budget == "80%"
    with pytest.raises(InvalidSettingError, match="expected 61 to 2147483647"):
        LogConfig.of({"segment.bytes": "2GiB"})
    with pytest.raises(InvalidSettingError, match="a whole number or a time such as 7d, found '7y'"):
        LogConfig.of({"log.retention.hours": "7y"})
    with pytest.raises(InvalidSettingError, match=r"flush\.messages: expected a whole number, found '7d'"):
        LogConfig.of({"flush.messages": "7d"})


def test_a_topic_keeps_numbers_where_words_were_said(tmp_path):
    assert canonical({"log.retention.hours": "7d", "retention.bytes": "10GiB", "segment.ms": "5"}) == {
        "retention.ms": "604800000",
        "retention.bytes": "10737418240",
        "segment.ms": "5",
    }
    with logstore.open(tmp_path / "data", {"segment.bytes": "1MiB"}, environ={}) as store:
        topic = store.create_topic("t", settings={"retention.ms": "7d"})
        assert (topic.config.retention_ms, topic.config.segment_bytes) == (7 * DAY_MS, 1 << 20)
        assert store.alter_topic("t", {"retention.bytes": "1GiB"}) == {
            "retention.ms": "604800000",
            "retention.bytes": "1073741824",
        }


def test_words_are_read_from_variables_and_toml_and_refused_in_a_server_properties(tmp_path):
    assert StoreConfig.from_environment({"LOGSTORE_RETENTION_MS": "7d"}).log.retention_ms == 7 * DAY_MS
    toml = tmp_path / "store.toml"
    toml.write_text('retention.ms = "7d"\n')
    assert StoreConfig.load(toml).log.retention_ms == 7 * DAY_MS
    file = tmp_path / "server.properties"
    file.write_text("log.retention.hours=7d\nlog.segment.bytes=1GiB\nlogstore.disk.budget=10GiB\n")
    with pytest.raises(InvalidSettingError, match="Kafka takes numbers only") as caught:
        StoreConfig.load(file)
    assert set(caught.value.problems) == {"log.retention.hours", "log.segment.bytes"}
    file.write_text("log.retention.hours=7\nlogstore.disk.budget=10GiB\n")
    loaded = StoreConfig.load(file)
    assert (loaded.log.retention_ms, loaded.disk_budget) == (7 * 3_600_000, 10 << 30)


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (duration_ms, "30 minuets", "found '30 minuets'; perhaps 30 minutes"),
        (duration_ms, "1.5 huors", "perhaps 1.5 hours"),
        (size_bytes, "10Gip", "perhaps 10 gib"),
        (duration_ms, "soon", "found 'soon'$"),
    ],
)
def test_the_nearest_right_form_is_named(read, text, said):
    with pytest.raises(ValueError, match=said):
        read(text)
