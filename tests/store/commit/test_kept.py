"""How long a store keeps records by default: for ever; and what it takes to say otherwise."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import logstore
from logstore.batch._crc32c import crc32c
from logstore.errors import LaterCatalogueError, PolicyViolationError, RetentionWarning
from logstore.log.directory.files import Directory
from logstore.records import TopicPartition
from logstore.store import open_briefly
from logstore.store.admin.diagnosis import diagnose
from logstore.store.catalog.topic_list import CATALOGUE, Catalogue
from logstore.store.catalog.topics import Topics
from logstore.testing import ManualClock, SimDisk, temporary_store
from tests.cli.conftest import run  # noqa: F401  a fixture

DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
NOW = 1_790_000_000_000
OLD = 1_577_836_800_000  # 2020
SMALL = {"segment.bytes": 300}


def open_store(path, clock, *settings, **options):
    return logstore.open(path, *settings, clock=clock, environ=options.pop("environ", {}), **options)


def import_old(store, name="flights", **settings):
    topic = store.create_topic(name, settings={**SMALL, **settings})
    for number in range(10):
        topic.append(b"record %d" % number, b"key %d" % number, timestamp=OLD + number)
    return topic


def years_later(store, clock):
    for _ in range(3):
        clock.advance(YEAR_MS)
        store.housekeep()


def count(store, name="flights"):
    return store[name].scan().count()


@pytest.fixture
def clock():
    return ManualClock(NOW)


def test_records_of_years_ago_outlive_every_round_of_housekeeping(tmp_path, clock):
    with open_store(tmp_path / "data", clock) as store:
        topic = import_old(store)
        years_later(store, clock)
        assert count(store) == 10
        assert (topic.config.retention_ms, topic.config.retention_bytes) == (-1, -1)
    # Also where other settings are given, from wherever.
    for options in ({"num_partitions": 3}, {"environ": {"LOGSTORE_SEGMENT_MS": "1000"}}):
        with open_store(tmp_path / "data", clock, **options) as store:
            years_later(store, clock)
            assert count(store) == 10


def test_so_do_those_of_every_other_way_in(tmp_path, run):  # noqa: F811
    with temporary_store() as store:
        import_old(store)
        years_later(store, store._host.clock)
        assert count(store) == 10
    line = '{"value": "old", "timestamp": %d}\n'
    run("import", "flights", "--create", "--set", "segment.bytes=100", input=line % OLD * 5)
    run("housekeep")
    assert len(run("consume", "flights", "-e").splitlines()) == 5
    with open_briefly(tmp_path / "brief", create=True) as store:
        assert store.create_topic("t").config.retention_ms == -1


def test_settings_given_to_the_store_hold_while_they_are_given(tmp_path, clock):
    with open_store(tmp_path / "data", clock) as store:
        import_old(store)
    toml = tmp_path / "logstore.toml"
    toml.write_text('"retention.ms" = 1000\n')
    for settings, options in (
        ((), {"retention_ms": 1000}),
        (({"log.retention.ms": 1000},), {}),
        ((toml,), {}),
        ((), {"environ": {"LOGSTORE_RETENTION_MS": "1000"}}),
        # Also what Kafka's default is, if it is said.
        ((), {"retention_ms": 7 * DAY_MS}),
    ):
        with open_store(tmp_path / "data", clock, *settings, **options) as store:
            assert store["flights"].config.retention_ms in (1000, 7 * DAY_MS)
    with open_store(tmp_path / "data", clock) as store:
        assert store["flights"].config.retention_ms == -1
        years_later(store, clock)
        assert count(store) == 10
    with open_store(tmp_path / "data", clock, retention_ms=1000) as store:
        kept = import_old(store, "kept", **{"retention.ms": -1})
        store.housekeep()
        assert count(store) == 0
        assert count(store, "kept") == 10
        assert kept.config.retention_ms == -1


@pytest.mark.parametrize(
    ("lines", "retention"),
    [
        ("broker.id=1\n", (7 * DAY_MS, -1, "delete")),
        ("log.retention.hours=1\nlog.retention.bytes=5000\n", (3_600_000, 5000, "delete")),
        ("log.retention.ms=-1\nlog.cleanup.policy=compact\n", (-1, -1, "compact")),
    ],
)
def test_a_topic_is_made_with_the_retention_of_a_server_properties_and_keeps_it(tmp_path, clock, lines, retention):
    def told(store, name):
        config = store[name].config
        return config.retention_ms, config.retention_bytes, config.cleanup_policy

    properties = tmp_path / "server.properties"
    properties.write_text(lines)
    with open_store(tmp_path / "data", clock) as store:
        import_old(store)
    with open_store(tmp_path / "data", clock, properties) as store:
        store.create_topic("theirs")
        assert told(store, "theirs") == retention
        # It changes no topic that was there.
        assert told(store, "flights") == (-1, -1, "delete")
        years_later(store, clock)
        assert count(store) == 10
    # Nor does another one, or none, change what that topic was made with.
    properties.write_text("log.retention.ms=5\n")
    for settings in ((properties,), ()):
        with open_store(tmp_path / "data", clock, *settings) as store:
            assert told(store, "theirs") == retention
            assert told(store, "flights") == (-1, -1, "delete")
    # But an argument beside the file does, while it is given.
    with open_store(tmp_path / "data", clock, properties, retention_ms=77) as store:
        assert store["theirs"].config.retention_ms == store["flights"].config.retention_ms == 77


def older_form(path, disk=None):
    """The catalogue as it was written before topics were recorded with what deletes their records."""
    root = Directory(path) if disk is None else Directory(path, disk)
    body = Catalogue.load(root).to_bytes().split(b"\n")[1]
    import json

    facts = json.loads(body)
    for entry in facts["topics"].values():
        del entry["defaults"]
    body = b"logstore topics 1\n" + json.dumps(facts).encode() + b"\n"
    root.replace(CATALOGUE, body + b"crc32c %08x\n" % crc32c(body), durable=True)


def test_topics_of_an_older_catalogue_are_kept_for_ever_and_named_until_it_is_chosen(run, clock):  # noqa: F811
    with open_store(run.directory, clock) as store:
        import_old(store)
        import_old(store, "chosen", **{"retention.ms": -1})
        import_old(store, "newest", **{"cleanup.policy": "compact"})
        store.commit_offsets("readers", {TopicPartition("flights", 0): 1})
    older_form(run.directory)
    with open_store(run.directory, clock) as store:
        years_later(store, clock)
        assert count(store) == 10
        named = [name for name in store.topics() if not store.describe_topic(name).retention_recorded]
        assert named == ["flights"]
    found = [each.where for each in diagnose(run.directory) if each.name == "retention-unrecorded"]
    assert found == ["topic flights"]
    described = run("topic", "describe", "flights", "newest")
    assert described.count("made before retention was recorded: it is kept for ever; set retention.ms") == 1
    run("topic", "alter", "flights", "retention.ms=-1")
    assert "retention was recorded" not in run("topic", "describe", "flights")
    assert not [each for each in diagnose(run.directory) if each.name == "retention-unrecorded"]


def test_describe_tells_a_retention_that_is_not_of_the_topics_own_settings(run, clock, tmp_path):  # noqa: F811
    (tmp_path / "server.properties").write_text("log.retention.hours=1\n")
    with open_store(run.directory, clock, tmp_path / "server.properties") as store:
        store.create_topic("theirs")
        store.create_topic("chosen", retention_ms=-1)
    assert "retention.ms=3600000, by the store's settings or as it was made" in run("topic", "describe", "theirs")
    assert "as it was made" not in run("topic", "describe", "chosen")


def test_a_program_that_would_delete_by_its_own_defaults_refuses_the_catalogue(clock):
    disk = SimDisk(1)
    with open_store("/data", clock, files=disk) as store:
        store.create_topic("flights")
    data = Directory("/data", disk).read(CATALOGUE)
    assert data.startswith(b"logstore topics 3\n")
    assert Catalogue.of_bytes(data, "here").topics["flights"].defaults["retention.ms"] == "-1"
    later = data.rsplit(b"crc32c", 1)[0].replace(b"topics 3", b"topics 4", 1)
    with pytest.raises(LaterCatalogueError):
        Catalogue.of_bytes(later + b"crc32c %08x\n" % crc32c(later), "here")


# -- a word of warning


def test_an_append_of_what_retention_deletes_warns_once_and_is_made(tmp_path, clock):
    with open_store(tmp_path / "data", clock) as store:
        topic = store.create_topic("short", 1, retention_ms=DAY_MS)
        topic.append(b"new")
        topic.append(b"none", timestamp=NOW - DAY_MS + 1)
        with pytest.warns(
            RetentionWarning, match=r"short-0: records of .* older than retention.ms=86400000"
        ) as told:
            topic.append(b"old", timestamp=OLD)
        assert len(told) == 1
        topic.append(b"older", timestamp=OLD - 1)
        assert topic.scan().count() == 4
        # The clock goes on: what was new when the log was opened is old by now.
        other = store.create_topic("other", 1, retention_ms=DAY_MS)
        other.append(b"new")
        clock.advance(10 * DAY_MS)
        store.housekeep()
        with pytest.warns(RetentionWarning, match="other-0"):
            other.append(b"old", timestamp=NOW + DAY_MS)
        store.alter_topic("other", retention_ms=-1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other.append(b"old", timestamp=OLD)
            import_old(store)


def test_a_warning_names_the_line_of_the_program_that_appends(tmp_path, clock):
    with open_store(tmp_path / "data", clock) as store:
        one, _, three = (store.create_topic(name, 1, retention_ms=DAY_MS) for name in ("one", "two", "three"))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            one.append(b"old", timestamp=OLD)
            with store.producer() as producer:
                producer.send("two", b"old", timestamp=OLD)
                producer.flush()
            three[0].append([b"old"], timestamp=OLD)
        assert len(told) == 3
        # One that a thread of the producer's own appends has no line.
        assert [Path(each.filename).name for each in (told[0], told[2])] == [Path(__file__).name] * 2
        assert told[2].lineno > told[0].lineno
        assert Path(logstore.__file__).parent not in Path(told[1].filename).parents


def test_the_command_line_says_a_warning_as_it_says_all_else(run, clock):  # noqa: F811
    with open_store(run.directory, clock) as store:
        store.create_topic("short", 1, retention_ms=DAY_MS)
    line = json.dumps({"timestamp": OLD, "value": "old"})
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        said = run.result("import", "short", input=line + "\n")
    assert said.exit_code == 0, said.stderr
    assert said.stderr.splitlines()[0].startswith("warning: short-0: records of")
    assert ".py" not in said.stderr
    assert "RetentionWarning" not in said.stderr


def test_a_warning_that_is_an_error_leaves_nothing_half_written(tmp_path, clock):
    with open_store(tmp_path / "data", clock) as store:
        topic = store.create_topic("short", 1, retention_ms=DAY_MS)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RetentionWarning):
                topic.append(b"old", timestamp=OLD)
        assert topic[0].log_end_offset == 0
        assert topic.append(b"old", timestamp=OLD).offset == 0


# -- compaction of what has no key


def test_compaction_is_refused_for_a_topic_with_keyless_records_until_it_is_confirmed(run, clock):  # noqa: F811
    with open_store(run.directory, clock) as store:
        topic = store.create_topic("events", 2)
        for number in range(100):
            topic.append(b"x", b"%d" % number)
        topic.append(b"no key", partition=1)
        for policy in ("compact", "compact,delete"):
            with pytest.raises(
                PolicyViolationError, match="partition 1 of topic 'events' has records without a key"
            ):
                store.alter_topic("events", cleanup_policy=policy, segment_bytes=500)
        assert topic.config.cleanup_policy == "delete"
        assert store.describe_topic("events").settings == {}
        # Other changes are made as ever.
        store.alter_topic("events", segment_bytes=500)
        import_old(store)
        store.alter_topic("flights", cleanup_policy="compact")
        # And of one that is compacted already nothing is read.
        store.alter_topic("flights", cleanup_policy="compact", segment_bytes=501)
    assert "without a key" in run.error("topic", "alter", "events", "cleanup.policy=compact")
    run("topic", "alter", "events", "cleanup.policy=compact", "--drop-keyless")
    with open_store(run.directory, clock) as store:
        assert store["events"].config.compacts
        store.alter_topic("events", cleanup_policy="delete")
        store.alter_topic("events", cleanup_policy="compact", drop_keyless=True)


def test_an_append_while_the_keys_are_looked_at_is_looked_at_too(tmp_path, clock, monkeypatch):
    with open_store(tmp_path / "data", clock) as store:
        topic = store.create_topic("events", 2)
        topic.append(b"x", b"key", partition=1)
        alter = Topics.alter

        def behind_an_append(self, *args, **options):
            topic.append(b"no key", partition=0)
            return alter(self, *args, **options)

        monkeypatch.setattr(Topics, "alter", behind_an_append)
        with pytest.raises(PolicyViolationError, match=r"partition 0 of topic 'events'.*offset 0"):
            store.alter_topic("events", cleanup_policy="compact")
        assert not any(log.maintenance.config.compacts for log in (topic[0], topic[1]))
        assert store.describe_topic("events").settings == {}
        topic.append(b"no key", partition=1)


def test_compaction_as_the_default_of_a_store_needs_keys_too(tmp_path, clock):
    with open_store(tmp_path / "data", clock) as store:
        store.create_topic("events").append(b"no key")
        store.create_topic("places").append(b"x", b"key")
    with open_store(tmp_path / "data", clock, cleanup_policy="compact", housekeeping="manual") as store:
        assert count(store, "places") == 1
        with pytest.raises(PolicyViolationError, match="partition 0 of topic 'events'"):
            store["events"][0]
        # Nor is it taken over as the topic's own.
        with pytest.raises(PolicyViolationError, match="partition 0 of topic 'events'"):
            store.alter_topic("events", cleanup_policy="compact")
        store.alter_topic("events", cleanup_policy="delete")
        assert count(store, "events") == 1
        store.alter_topic("events", cleanup_policy="compact", drop_keyless=True)
    with open_store(tmp_path / "data", clock, cleanup_policy="compact") as store:
        assert store["events"].config.compacts
        assert count(store, "events") == 1


# -- room


def test_a_limit_of_the_disk_takes_from_what_is_kept_for_ever_only_by_default(tmp_path, clock):
    settings = {"logstore.disk.budget": 100_000, "segment.bytes": 10_000}
    with open_store(tmp_path / "data", clock, settings) as store:
        kept = store.create_topic("kept", retention_ms=-1)
        topic = store.create_topic("default")
        kept.append(b"x" * 9_000)
        for _ in range(40):
            topic.append(b"x" * 9_000)
        assert topic[0].log_start_offset > 0
        assert kept[0].log_start_offset == 0
