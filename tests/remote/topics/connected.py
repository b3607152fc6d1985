"""What `logstore.connect` must do on every cluster, whether its brokers are of this process or a real Kafka."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import logstore
from logstore.client.store import ONLY_OF_STORES
from logstore.config.log import LogConfig
from logstore.errors import (
    ConfigError,
    InvalidPartitionsError,
    LogstoreError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    RecordTooLargeError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
    UnsupportedOperationError,
)
from logstore.records import NewTopic
from logstore.remote.topics.store import RemoteStore
from logstore.remote.topics.topic import RemoteTopic


def program(store: logstore.Store | RemoteStore) -> list[object]:
    """What a user does with either of them; the same calls, and the same results."""
    seen: list[object] = []
    flights = store.create_topic("flights", partitions=2)
    at = flights.append(b"AA 1141", key=b"AA")
    seen += [at.topic, at.partition, at.offset]
    made = flights.append_many([(b"AA", b"AA 1"), (b"UA", b"UA 2"), (b"AA", b"AA 3")])
    seen += [{number: (each.first_offset, each.last_offset) for number, each in made.items()}]
    seen += ["flights" in store, list(store), len(flights), 1 in flights, 2 in flights]
    seen += [sorted(record.value for record in flights.scan())]
    seen += [[record.value for record in flights.read(at.partition)], flights.scan().count()]
    found = flights.record_at(at.partition, 0)
    seen += [found and (found.key, found.value)]
    with store.consumer(group="report", auto_offset_reset="earliest") as consumer:
        consumer.assign_topics("flights")
        values: list[bytes | None] = []
        while len(values) < 4:
            values += [record.value for record in consumer.poll(timeout_s=5)]
        seen += [sorted(value or b"" for value in values)]
        consumer.commit()
    seen += [{name: each.offset for name, each in store.committed("report").items()}]
    seen += [[each.records for each in store.lag("report")]]
    flights.append(b"AA 4", key=b"AA")
    seen += [sum(each.records for each in store.lag("report"))]
    with store.producer(linger_ms=5) as producer:
        sent = [producer.send("flights", b"%d" % number, b"UA") for number in range(50)]
        producer.flush()
        seen += [[each.result().offset for each in sent], sent[0].result().partition]
    described = store.describe_topic("flights")
    seen += [[(each.log_start_offset, each.high_watermark) for each in described.partitions]]
    store.delete_topic("flights")
    seen += ["flights" in store]
    return seen


def after_deletion(store: logstore.Store | RemoteStore) -> dict[str, type[BaseException]]:
    """The errors of each use of a topic that was deleted: of what was opened before, and of what is opened now."""
    topic = store.create_topic("gone", partitions=1)
    topic.append_many([b"a", b"b"])
    partition, scan = topic[0], topic.scan()
    with (
        store.producer(delivery_timeout_ms=2_000, request_timeout_ms=1_000) as producer,
        store.consumer(auto_offset_reset="earliest") as consumer,
    ):
        producer.send("gone", b"c").result(30)
        consumer.assign_topics("gone")
        store.delete_topic("gone")

        def poll() -> None:
            for _ in range(100):
                consumer.poll(0.1)

        uses = {
            "topic": lambda: store.topic("gone"),
            "describe": lambda: store.describe_topic("gone"),
            "delete": lambda: store.delete_topic("gone"),
            "append": lambda: topic.append(b"d"),
            "append_many": lambda: topic.append_many([b"d"]),
            "delete_records": lambda: topic.delete_records({0: 1}),
            "config": lambda: topic.config,
            "len": lambda: len(topic),
            "partition": lambda: topic[0],
            "read": lambda: topic.read(0),
            "record_at": lambda: topic.record_at(0, 0),
            "time": lambda: topic.offset_for_time(0),
            "scan": lambda: topic.scan().count(),
            "read of a partition at hand": lambda: partition.read(0),
            "record of a partition at hand": lambda: partition.record_at(0),
            "start of a partition at hand": lambda: partition.log_start_offset,
            "end of a partition at hand": lambda: partition.end_offset(),
            "scan at hand": lambda: list(scan),
            "poll": poll,
            "send": lambda: producer.send("gone", b"d").result(30),
        }
        found: dict[str, type[BaseException]] = {}
        for name, use in uses.items():
            try:
                use()
            except LogstoreError as error:
                found[name] = next((kind for kind in PROMISED if isinstance(error, kind)), type(error))
            else:
                found[name] = type(None)
    return found


PAGE = Path(__file__).resolve().parent.parent.parent.parent / "docs" / "howto" / "cluster.md"
SRC = Path(logstore.__file__).parent


def refusals(cluster: RemoteStore, topic: RemoteTopic, store: logstore.Store) -> dict[str, Callable[[], object]]:
    """What is refused, by the rows of the page."""

    def each_with(**given: object) -> None:
        with pytest.raises(UnsupportedOperationError):
            topic.append_many([b"a"], **given)
        topic.append(b"a", **given)

    def both_scans() -> None:
        with pytest.raises(UnsupportedOperationError):
            topic.scan(on_damage="skip").count()
        topic[0].scan(on_damage="skip")

    return {
        "append(ack=)": lambda: each_with(ack="synced"),
        "append(acks=)": lambda: topic.append(b"a", acks=1),
        "append(expect=)": lambda: each_with(expect=0),
        "log()": lambda: topic.log(0),
        'scan(on_damage="skip")': both_scans,
        **{
            f"{name}()": partial(getattr(cluster, name), *(("copy",) if name == "snapshot" else ()))
            for name in ONLY_OF_STORES
        },
        "subscribe()": lambda: store.consumer(group="crew").subscribe("t"),
    }


def rows_of(page: str) -> dict[str, str]:
    """The calls in the tables of a page, the first of each row, with what the row says."""
    rows = [line.removesuffix(" |").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    return {call.split("`")[1]: told for call, told in rows}


def sites_in(folder: Path) -> dict[tuple[str, int], str]:
    """Where code raises the error: file and first line of each ``raise``."""
    found = {}
    for path in folder.rglob("*.py"):
        text = path.read_text("utf-8")
        if "raise UnsupportedOperationError" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Raise) and "UnsupportedOperationError(" in ast.unparse(node):
                    found[str(path), node.lineno] = ast.unparse(node)
    return found


def site_of(error: BaseException) -> tuple[str, int]:
    """Where an error was raised, as in `sites_in`."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    lines = [line for path, line in sites_in(SRC) if path == last.filename and line <= (last.lineno or 0)]
    return last.filename, max(lines)


#: What a user may rely on, on both sides, of a topic that was deleted.
PROMISED = (UnknownTopicError,)


class ConnectedCases:
    """Cases over the fixture ``cluster``: a `RemoteStore` of brokers without topics."""

    @pytest.mark.row("P1", part="the same program on a store and on a cluster")
    def test_one_program_runs_on_a_store_and_on_a_cluster(self, tmp_path, cluster):
        with logstore.open(tmp_path / "store") as store:
            on_files = program(store)
        assert program(cluster) == on_files

    def test_a_deleted_topic_is_an_unknown_topic_on_a_store_and_on_a_cluster(self, tmp_path, cluster):
        with logstore.open(tmp_path / "store") as store:
            on_files = after_deletion(store)
        # A topic that a broker does not know any more is asked for again: it may be on its way to this broker.
        soon = {"delivery.timeout.ms": 2_000, "default.api.timeout.ms": 2_000}
        brokers = cluster._client.config.bootstrap_servers
        with logstore.connect(brokers, soon, request_timeout_ms=1_000, metadata_max_age_ms=200) as impatient:
            on_cluster = after_deletion(impatient)
        assert on_files == on_cluster
        assert set(on_cluster.values()) == {UnknownTopicError}

    def test_what_one_side_cannot_do_is_the_table_of_the_page(self, cluster, tmp_path):
        """Each row is refused with the row's advice, and each refusal of the code is met by a row."""
        rows, met = rows_of(PAGE.read_text("utf-8")), set()
        with logstore.open(tmp_path / "store") as store:
            refused = refusals(cluster, cluster.create_topic("t"), store)
            assert [*rows] == [*refused]
            for row, call in refused.items():
                with pytest.raises(UnsupportedOperationError) as raised:
                    call()
                assert rows[row] in str(raised.value)
                met.add(site_of(raised.value))
        assert met == set(sites_in(SRC))

    def test_what_only_a_store_has_is_refused_in_one_sentence(self, cluster):
        for name, advice in ONLY_OF_STORES.items():
            given = ("copy",) if name == "snapshot" else ()
            with pytest.raises(UnsupportedOperationError) as raised:
                getattr(cluster, name)(*given)
            assert (
                str(raised.value)
                == f"{name}() is of a store, and {cluster._backend.location} is a cluster: {advice}"
            )
        topic = cluster.create_topic("t")
        for given in ({"ack": "synced"}, {"expect": 0}, {"acks": 1}):
            with pytest.raises(UnsupportedOperationError, match=r"^topic 't' of "):
                topic.append(b"a", **given)
        assert topic.append(b"a", acks="all").offset == 0
        with pytest.raises(UnsupportedOperationError, match="damage is skipped only in files"):
            topic.scan(on_damage="skip")

    def test_topics_are_made_described_and_found_by_name(self, cluster):
        made = cluster.create_topics(["a", NewTopic("b", 3)])
        assert [(topic.name, len(topic)) for topic in made] == [("a", 1), ("b", 3)]
        with pytest.raises(TopicExistsError):
            cluster.create_topic("a")
        again = cluster.create_topics(["a", "c"], if_not_exists=True)
        assert [topic.id for topic in again] == [made[0].id, cluster["c"].id]
        assert cluster.topics() == ["a", "b", "c"]
        cluster.delete_topics(["a", "c"])
        assert cluster.topics() == ["b"]
        with pytest.raises(UnknownTopicError, match="'a'"):
            cluster["a"]
        cluster.create_topic("a", partitions=2)
        with pytest.raises(UnknownTopicError, match="another one has its name"):
            made[0].append(b"into the one that is gone")

    def test_bad_records_change_nothing(self, cluster):
        topic = cluster.create_topic("t", partitions=2)
        with pytest.raises(RecordTooLargeError):
            topic.append_many([(b"a", b"small"), (b"b", b"x" * 2_000_000)])
        with pytest.raises(UnknownPartitionError, match="partitions 0 to 1, found 2"):
            topic.append(b"a", partition=2)
        assert topic.scan().count() == 0
        assert topic.append_many([]) == {}

    def test_append_many_takes_one_partition_and_columns(self, cluster):
        import pyarrow as pa

        topic = cluster.create_topic("t", partitions=3)
        assert topic.append_many([b"a", b"b"], partition=2)[2].last_offset == 1
        written = topic.append_arrow(pa.table({"key": [b"x", b"y"], "value": [b"1", b"2"]}))
        assert sum(each.last_offset - each.first_offset + 1 for each in written.values()) == 2
        assert topic.scan(columns=["value"]).to_arrow().num_rows == 4

    def test_settings_of_a_topic_are_changed_and_taken_back(self, cluster):
        topic = cluster.create_topic("t", retention_ms="7d", settings={"cleanup.policy": "compact"})
        assert cluster.describe_topic("t").settings == {"retention.ms": "604800000", "cleanup.policy": "compact"}
        assert topic.config.compacts
        with pytest.raises(PolicyViolationError, match=r"add delete to its cleanup\.policy"):
            topic.delete_records({0: -1})
        assert cluster.alter_topic("t", cleanup_policy="delete", retention_ms=None) == {"cleanup.policy": "delete"}
        assert topic.config.retention_ms == LogConfig().retention_ms
        with pytest.raises(ConfigError, match=r"logstore\.ack"):
            cluster.alter_topic("t", {"logstore.ack": "synced"})
        with pytest.raises(ConfigError, match="colour"):
            cluster.alter_topic("t", {"colour": "red"})

    def test_records_are_deleted_and_partitions_added(self, cluster):
        topic = cluster.create_topic("t", partitions=2)
        topic.append_many([b"a", b"b", b"c"], partition=1)
        assert topic.delete_records({0: 0, 1: 2}) == {0: 0, 1: 2}
        assert [record.value for record in topic.scan()] == [b"c"]
        with pytest.raises(OffsetOutOfRangeError):
            topic.delete_records({1: 9})
        assert topic.delete_records({1: -1}) == {1: 3}
        assert len(cluster.add_partitions("t", 4)) == 4
        with pytest.raises(InvalidPartitionsError):
            cluster.add_partitions("t", 4)
        assert topic.append(b"d", partition=3).offset == 0
