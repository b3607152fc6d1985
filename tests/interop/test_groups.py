"""Groups of a real Kafka: this client's members share topics, by each protocol."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logstore.batch._encode import encode
from logstore.records import NewTopic, TopicPartition
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from tests.interop.broker import die_with_parent, fetch, java
from tests.interop.cluster import Cluster
from tests.remote.backend.group_cases import EACH, KINDS, Brokers, GroupCases

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

#: Short sessions, also of members by KIP-848, whose brokers say how long they are.
GROUPS = {
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
}

_ASSIGNORS = "org.apache.kafka.clients.consumer."
JAVAS = {
    "range": _ASSIGNORS + "RangeAssignor",
    "roundrobin": _ASSIGNORS + "RoundRobinAssignor",
    "sticky": _ASSIGNORS + "StickyAssignor",
    "cooperative-sticky": _ASSIGNORS + "CooperativeStickyAssignor",
}


class KafkaBrokers(Brokers):
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap
        self.admin = Client(cluster.bootstrap, is_patient=True)

    def create(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, partitions)])

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions(topic, total)

    def append(self, name: TopicPartition, count: int) -> None:
        with IdempotentProducer(self.admin) as producer:
            producer.submit(name, encode([b"%d" % number for number in range(count)]))

    def move_coordinator(self, group: str) -> None:
        self.cluster.move_coordinator(group, self.cluster.coordinator(group) % 3 + 1)


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("kafka"), properties=GROUPS) as cluster:
        yield cluster


class TestGroups(GroupCases):
    @pytest.fixture
    def brokers(self, cluster: Cluster) -> Iterator[Brokers]:
        made = KafkaBrokers(cluster)
        yield made
        made.admin.close()

    # -- members that are processes, and members of other clients

    @EACH
    def test_a_process_that_is_killed_costs_no_record(self, kind: str) -> None:
        self.create(6)
        self.append(6, 200)
        settings = {
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 50,
            "session.timeout.ms": self.brokers.session_ms,
            "heartbeat.interval.ms": self.brokers.heartbeat_ms,
            **KINDS[kind],
        }
        command = [sys.executable, "-m", "tests.interop.group_member", self.brokers.bootstrap, self.group]
        command += [self.topic, json.dumps(settings)]
        printed: list[tuple[TopicPartition, int]] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent) as process:
            assert process.stdout is not None
            second = None
            for line in process.stdout:
                if not line.endswith("\n"):
                    break  # cut off with the process; its record was not committed
                partition, offset = map(int, line.split())
                printed.append((TopicPartition(self.topic, partition), offset))
                if len(printed) == 100:
                    second = self.reader(kind)
                if len(printed) >= 400 and not process.poll():
                    process.kill()
        assert second is not None
        self.append(6, 100)
        self.wait_for_shares(second, total=6)
        wanted = {(TopicPartition(self.topic, n), offset) for n in range(6) for offset in range(300)}
        self.wait(lambda: wanted == {*second.got, *printed}, "every record is delivered")
        second.leave()

    @EACH
    def test_a_member_shares_with_kafkas_own_consumer(self, kind: str, tmp_path: Path) -> None:
        self.create(6)
        settings = KINDS[kind] | {"auto.offset.reset": "earliest"}
        strategy = settings.pop("partition.assignment.strategy", None)
        if strategy is not None:
            settings["partition.assignment.strategy"] = JAVAS[strategy]
            settings["session.timeout.ms"] = 6_000
        properties = tmp_path / "consumer.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [java(), "-Xmx128m", "-cp", f"{fetch()}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer"]
        command += ["--bootstrap-server", self.brokers.bootstrap, "--topic", self.topic, "--group", self.group]
        command += ["--command-config", str(properties)]
        for name in ("print.partition", "print.offset"):
            command += ["--formatter-property", f"{name}=true"]
        printed: list[tuple[TopicPartition, int]] = []
        with (
            (tmp_path / "java.log").open("wb") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, preexec_fn=die_with_parent) as process,
        ):

            def read() -> None:
                assert process.stdout is not None
                for line in process.stdout:
                    found = re.match(rb"Partition:(\d+)\tOffset:(\d+)", line)
                    assert found is not None, line
                    printed.append((TopicPartition(self.topic, int(found[1])), int(found[2])))

            reading = threading.Thread(target=read)
            reading.start()
            try:
                self.append(6, 20)
                self.wait(lambda: len(printed) == 120, "Java's consumer reads all")
                second = self.reader(kind)
                self.wait(lambda: len(second.holds) == 3, "half of it")
                self.append(6, 20)
                self.wait(lambda: len({*printed, *second.got}) == 240, "both read")
                assert len(second.got) >= 60
                process.terminate()
                process.wait(60)
            finally:
                process.kill()
                reading.join(60)
        self.wait_for_shares(second, total=6)
        self.append(6, 20)
        self.wait(lambda: len({*printed, *second.got}) == 360, "the rest")
        second.leave()
        both = Counter([*printed, *second.got])
        assert set(both.values()) == {1}

    @pytest.mark.parametrize("kind", ["range", "roundrobin", "cooperative", "consumer"])
    def test_a_member_shares_with_librdkafka(self, kind: str) -> None:
        import confluent_kafka

        self.create(6)
        settings = {"bootstrap.servers": self.brokers.bootstrap, "group.id": self.group} | KINDS[kind]
        if kind != "consumer":
            settings["session.timeout.ms"] = 6_000
        other = confluent_kafka.Consumer(settings | {"auto.offset.reset": "earliest"})
        other.subscribe([self.topic])
        got: list[tuple[TopicPartition, int]] = []

        def take() -> None:
            for each in other.consume(100, 0.1):
                assert each.error() is None, each.error()
                got.append((TopicPartition(each.topic(), each.partition()), each.offset()))

        def waits(holds: Callable[[], object], what: str) -> None:
            self.wait(lambda: take() or holds(), what)

        self.append(6, 20)
        waits(lambda: len(got) == 120, "librdkafka reads all")
        mine = self.reader(kind)
        waits(lambda: len(mine.holds) == 3 == len(other.assignment()), "half of it")
        self.append(6, 20)
        waits(lambda: len({*got, *mine.got}) == 240, "both read")
        mine.leave()
        waits(lambda: len(other.assignment()) == 6, "all of it")
        self.append(6, 20)
        waits(lambda: len({*got, *mine.got}) == 360, "the rest")
        other.close()
        assert set(Counter([*got, *mine.got]).values()) == {1}
