"""The sink to a broker as plain objects, against brokers in this process that lose answers and refuse."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from logstore.batch._batch import BatchView
from logstore.batch._key_hash import partition_of
from logstore.errors import (
    BrokerUnreachableError,
    DeliveryTimeoutError,
    InvalidTimestampError,
    SparkColumnsError,
    SparkOptionError,
    UnknownTopicError,
)
from logstore.protocol.generated import messages as m
from logstore.records import TimestampType
from logstore.spark.reading.options import ReadOptions
from logstore.spark.writing import sink
from logstore.spark.writing.bootstrap import BrokerSink, SentRows
from logstore.spark.writing.options import WriteOptions
from tests.remote.fake_cluster import FakeCluster, disconnect
from tests.spark import sinks

pytestmark = pytest.mark.row("D5")

QUICK = {"kafka.retry.backoff.ms": "1", "kafka.delivery.timeout.ms": "3000", "kafka.request.timeout.ms": "1000"}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as made:
        made.topic("t", partitions=3, leaders=(1, 2))
        made.topic("u", partitions=1)
        yield made


def stream(cluster: FakeCluster, topic: str | None = "t", **columns: str) -> sink.StreamWriter:
    options = {"kafka.bootstrap.servers": cluster.bootstrap, **QUICK} | ({"topic": topic} if topic else {})
    made = sink.stream_writer(options, sinks.schema(value="binary", **columns), False)
    assert isinstance(made.sink, BrokerSink)
    return pickle.loads(pickle.dumps(made))


def rows(count: int, **columns: Any) -> pa.RecordBatch:
    return pa.record_batch({"value": [b"%d" % number for number in range(count)], **columns})


def test_rows_reach_the_partitions_of_their_keys(cluster: FakeCluster) -> None:
    keys = [b"k%d" % (number % 7) for number in range(100)]
    message = stream(cluster, key="binary").write(iter([rows(60, key=keys[:60]), rows(40, key=keys[60:])]))
    assert isinstance(message, SentRows)
    assert message.row_count == 100
    for number in range(3):
        expected = [
            b"%d" % (place if place < 60 else place - 60)
            for place, key in enumerate(keys)
            if partition_of(key, 3) == number
        ]
        assert cluster.topics["t"].partitions[number].values() == expected
    stream(cluster, key="binary").commit([message, None], 0)


def test_a_lost_answer_doubles_nothing(cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        broker.plan(m.ProduceRequest, disconnect)
    stream(cluster).write(iter([rows(100)]))
    found = [value for one in cluster.topics["t"].partitions for value in one.values()]
    assert sorted(found) == sorted(b"%d" % number for number in range(100))


def test_a_batch_that_comes_again_is_there_twice(cluster: FakeCluster) -> None:
    for _ in range(2):
        stream(cluster, topic="u").write(iter([rows(3)]))
    assert cluster.topics["u"].partitions[0].values() == [b"0", b"1", b"2"] * 2


def test_rows_name_their_topics(cluster: FakeCluster) -> None:
    options = {"bootstrap": cluster.bootstrap, **QUICK}
    made = sink.stream_writer(options, sinks.schema(topic="string", value="binary"), False)
    made.write(iter([rows(3, topic=["u", "t", "u"])]))
    assert cluster.topics["u"].partitions[0].values() == [b"0", b"2"]
    with pytest.raises(UnknownTopicError, match="topic 'nope' does not exist"):
        made.write(iter([rows(1, topic=["nope"])]))


def test_a_job_writes_and_commits(cluster: FakeCluster) -> None:
    made = sink.writer({"bootstrap": cluster.bootstrap, "topic": "u", **QUICK}, sinks.schema(value="binary"), False)
    assert isinstance(made.sink, BrokerSink)
    made.commit([made.write(iter([rows(2)]))])
    assert cluster.topics["u"].partitions[0].values() == [b"0", b"1"]


def test_what_is_wrong_is_told_before_any_task_runs(cluster: FakeCluster) -> None:
    with pytest.raises(UnknownTopicError, match="topic 'v' does not exist at the broker; create it there first"):
        stream(cluster, topic="v")
    with pytest.raises(SparkColumnsError, match="user: unknown"):
        stream(cluster, user="string")
    with pytest.raises(BrokerUnreachableError):
        sink.stream_writer(
            {"bootstrap": "127.0.0.1:1", "topic": "t", "kafka.max.block.ms": "200", **QUICK},
            sinks.schema(value="binary"),
            False,
        )


def test_a_broker_that_takes_nothing_fails_the_task(cluster: FakeCluster) -> None:
    made = stream(cluster, topic="u")
    cluster.brokers[1].plan(m.ProduceRequest, *[7] * 10_000)  # REQUEST_TIMED_OUT, for ever
    with pytest.raises(DeliveryTimeoutError, match=r"u-0.*delivery.timeout.ms=3000"):
        made.write(iter([rows(3)]))


@pytest.mark.parametrize("settings", [{}, {"message.timestamp.after.max.ms": str(2**63 - 1)}])
def test_times_that_the_broker_takes_are_not_refused_here(cluster: FakeCluster, settings: dict[str, str]) -> None:
    cluster.topics["u"].settings = settings
    ahead = pa.array([(time.time_ns() // 1000) + 7_200_000_000], pa.timestamp("us", "UTC"))
    stream(cluster, topic="u", timestamp="timestamp").write(iter([rows(1, timestamp=ahead)]))
    assert cluster.topics["u"].partitions[0].values() == [b"0"]


def test_times_that_a_broker_says_it_refuses_are_refused_in_the_task(cluster: FakeCluster) -> None:
    cluster.topics["u"].settings = {"message.timestamp.before.max.ms": "1000"}
    old = pa.array([1_000_000], pa.timestamp("us", "UTC"))
    with pytest.raises(InvalidTimestampError, match=r"message\.timestamp\.before\.max\.ms allows 1000"):
        stream(cluster, topic="u", timestamp="timestamp").write(iter([rows(1, timestamp=old)]))
    assert cluster.topics["u"].partitions[0].values() == []


def test_no_batch_says_that_the_broker_has_stamped_it(cluster: FakeCluster) -> None:
    """Which Kafka refuses: it stamps them itself."""
    cluster.topics["u"].settings = {"message.timestamp.type": "LogAppendTime"}
    stream(cluster, topic="u").write(iter([rows(3)]))
    views = [BatchView(each) for each in cluster.topics["u"].partitions[0].batches]
    assert [view.timestamp_type for view in views] == [TimestampType.CREATE_TIME]


@pytest.mark.parametrize("kind", [ReadOptions, WriteOptions])
def test_settings_of_security_are_taken_for_a_broker_and_shown_in_no_repr(
    kind: type[ReadOptions] | type[WriteOptions],
) -> None:
    secured = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "s3cr3t",
        "ssl.truststore.location": "/ca.pem",
    }
    told = {"subscribe": "t"} if kind is ReadOptions else {"topic": "t"}
    found = kind.of({"bootstrap": "b:9093", **told, **{f"kafka.{key}": value for key, value in secured.items()}})
    assert found.kafka == secured
    assert "s3cr3t" not in repr(found)


def test_settings_of_security_are_refused_for_the_directory_of_a_store() -> None:
    with pytest.raises(SparkOptionError, match=r"kafka\.security\.protocol: the store is a directory"):
        WriteOptions.of({"path": "/store", "topic": "t", "kafka.security.protocol": "SSL"})


@pytest.mark.parametrize("kind", [ReadOptions, WriteOptions])
def test_all_that_is_wrong_with_a_connection_is_named_beside_all_other_options(
    kind: type[ReadOptions] | type[WriteOptions],
) -> None:
    """Before any broker is asked, in the words of the options, and without a secret."""
    told = (
        {"kafka.bootstrap.servers": "b:9093", "subscribe": "t"} if kind is ReadOptions else {"bootstrap": "b:9093"}
    )
    told |= {"topik": "t", "kafka.security.protocl": "SSL", "kafka.request.timeout.ms": "soon"}
    with pytest.raises(SparkOptionError) as caught:
        kind.of(told)
    assert {"topik", "kafka.security.protocl", "kafka.request.timeout.ms"} == set(caught.value.problems)
    told = {"bootstrap": "b:9093", "includeHeaders": "perhaps"} | (
        {"subscribe": "t"} if kind is ReadOptions else {}
    )
    told |= {
        "kafka.retry.backoff.ms": "soon",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.password": "s3cr3t",
        "kafka.ssl.keystore.password": "s3cr3t",
        "kafka.ssl.truststore.password": "s3cr3t",
    }
    with pytest.raises(SparkOptionError) as caught:
        kind.of(told)
    assert set(caught.value.problems) == {
        "includeHeaders",
        "kafka.retry.backoff.ms",
        "kafka.sasl.mechanism",
        "kafka.sasl.username",
        "kafka.ssl.keystore.location",
        "kafka.ssl.truststore.location",
    }
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(("option", "named"), [("bootstrap", "bootstrap"), ("kafka.bootstrap.servers",) * 2])
def test_an_address_that_is_none_is_named_by_its_option(option: str, named: str) -> None:
    with pytest.raises(SparkOptionError) as caught:
        ReadOptions.of({option: "b:port", "subscribe": "t"})
    assert set(caught.value.problems) == {named}
    assert "expected host:port" in str(caught.value)
