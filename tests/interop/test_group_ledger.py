"""The ledger of a group: which histories it refuses, and a real Kafka whose members are killed, join and leave."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.batch._encode import encode
from logstore.records import NewTopic, TopicPartition
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from tests.interop.broker import die_with_parent, fetch, java
from tests.interop.cluster import Cluster
from tests.interop.group_ledger import Event, Ledger, events_of, held_by, shares_are_fair
from tests.interop.test_groups import GROUPS
from tests.kit.waiting import wait_for
from tests.remote.backend.group_cases import BOTH, KINDS

#: Kills, and as many joins, by each protocol; `make soak` has more.
KILLS = int(os.environ.get("LOGSTORE_GROUP_KILLS", "10"))
MEMBERS = 6
PARTITIONS = 15
PATIENCE_S = 120

#: Long enough for a machine that runs other tests as well: a member that stands still longer is rightly removed.
SESSION_MS = 10_000
SETTINGS = {
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 500,
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 500,
}


# --- the ledger itself -----------------------------------------------------------------------------


def history(*lines: str) -> list[Event]:
    """Events of partition 0, written ``member what offset``."""
    found = []
    for time_ns, line in enumerate(lines):
        member, what, *offset = line.split()
        found.append(Event(time_ns, member, what, 0, int(offset[0]) if offset else 0))
    return found


BEGIN = ("a assigned", "a given 0", "a given 1", "a commits 2", "a committed 2", "a given 2")


def test_a_record_comes_again_after_a_death_from_the_committed_offset_on() -> None:
    ledger = Ledger(history(*BEGIN, "a dies", "b assigned", "b given 2", "b given 3"))
    ledger.check({0: 4}, deaths=1)
    assert ledger.again == 1
    # It is unknown whether a commit without an answer was made.
    for offset in (2, 3):
        assert Ledger(history(*BEGIN, "a commits 3", "a dies", "b assigned", f"b given {offset}")).faults == []


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (("a given 4",), "3 is the next one"),
        (("a given 2",), "3 is the next one"),
        (("a commits 4",), "records up to 3 were given"),
        (("b given 3",), "a holds it"),
        (("b assigned",), "a still holds it"),
        (("a lost", "b assigned", "b given 2"), "the member lives"),
        (("a dies", "b assigned", "b given 1"), r"committed may be \[2\]"),
        (("a dies", "b assigned", "b given 3"), r"committed may be \[2\]"),
        (("a revoked", "b assigned", "b given 2"), "left it in peace"),
        (("a revoked", "b assigned", "b given 4"), "left it in peace"),
        (("a revoked", "a given 3"), "None holds it"),
        (("a leaves", "b assigned", "b given 2"), "left it in peace"),
        (("a revoked", "b assigned", "a commits 3"), "b holds it"),
        (("a dies", "b assigned", "b dies", "c assigned", "c given 3"), r"committed may be \[2\]"),
    ],
)
def test_the_ledger_refuses_what_must_not_be(lines: tuple[str, ...], fault: str) -> None:
    ledger = Ledger(history(*BEGIN, *lines))
    assert ledger.faults
    assert re.search(fault, ledger.faults[0]), ledger.faults
    with pytest.raises(AssertionError, match=fault):
        ledger.check(ledger.ends, deaths=1)


def test_a_record_that_no_member_was_given_is_missed() -> None:
    with pytest.raises(AssertionError, match="not every record"):
        Ledger(history(*BEGIN)).check({0: 4}, deaths=0)


@pytest.mark.parametrize(
    ("held", "fair"),
    [
        ([{0, 1}, {2}], True),
        ([{0, 1, 2}, set()], False),
        ([{0, 1}, {1, 2}], False),
        ([{0}, {1}], False),
    ],
)
def test_shares(held: list[set[int]], fair: bool) -> None:
    assert shares_are_fair(held, 3) is fair


# --- a real Kafka ----------------------------------------------------------------------------------


class Member:
    """One process, and its part of the ledger."""

    def __init__(self, command: list[str], path: Path) -> None:
        self.path = path
        self.name = path.stem
        self.log = path.with_suffix(".log")
        self._end: Event | None = None
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, str(path)], stderr=log, preexec_fn=die_with_parent)

    def events(self) -> list[Event]:
        return [*events_of(self.path, self.name), *([self._end] if self._end else [])]

    def held(self) -> set[int]:
        return held_by(self.events())

    @property
    def takes_signals(self) -> bool:
        """Whether SIGTERM makes it leave: it makes its ledger after that."""
        return self.path.exists()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._end = Event(time.monotonic_ns(), self.name, "dies", -1, -1)

    def leave(self) -> None:
        """End cleanly: the process commits, and leaves the group."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0, self.log.read_text()[-2_000:]
        assert not self.held()
        self._end = Event(time.monotonic_ns(), self.name, "leaves", -1, -1)


class Writer(threading.Thread):
    """Appends a few records to each partition, until it is told to end."""

    def __init__(self, client: Client, topic: str) -> None:
        super().__init__(daemon=True)
        self._client, self._topic = client, topic
        self.written = dict.fromkeys(range(PARTITIONS), 0)
        self._ends = threading.Event()

    def run(self) -> None:
        with IdempotentProducer(self._client) as producer:
            while not self._ends.wait(0.3):
                for partition in range(PARTITIONS):
                    producer.submit(TopicPartition(self._topic, partition), encode([b"a", b"b", b"c"]))
                    self.written[partition] += 3
                producer.flush()

    def end(self) -> None:
        self._ends.set()
        self.join()


class Scene:
    """A group of processes at one cluster."""

    def __init__(self, bootstrap: str, kind: str, directory: Path) -> None:
        self.topic, self.group = f"t-{kind}", f"g-{kind}"
        self._bootstrap = bootstrap
        settings = json.dumps(SETTINGS | KINDS[kind])
        self._command = [sys.executable, "-m", "tests.interop.group_ledger", bootstrap, self.group, self.topic]
        self._command.append(settings)
        self._directory = directory
        self.all: list[Member] = []
        self.living: list[Member] = []
        self.deaths = 0

    def join(self) -> None:
        made = Member(self._command, self._directory / f"member-{len(self.all)}.txt")
        self.all.append(made)
        self.living.append(made)

    def kill(self, member: Member) -> None:
        self.living.remove(member)
        member.kill()
        self.deaths += 1

    def leave(self, member: Member) -> None:
        self.living.remove(member)
        member.leave()

    def wait_for_shares(self) -> None:
        """Wait until the living members divide the topic, with shares that differ by at most one."""

        def told() -> str:
            logs = "\n".join(one.log.read_text()[-1_000:] for one in self.living)
            return f"shares: {[(one.name, sorted(one.held())) for one in self.living]}\n{logs}"

        def is_so() -> bool:
            assert all(one.process.poll() is None for one in self.living), told()
            return shares_are_fair([one.held() for one in self.living], PARTITIONS)

        wait_for(is_so, PATIENCE_S, told, every_s=0.1)

    def told(self) -> str:
        """The faults, and what members have printed."""
        logs = [f"{one.name}: {text[-500:]}" for one in self.all if (text := one.log.read_text())]
        return "\n".join([*self.ledger().faults[:20], *logs[-20:]])

    def ledger(self) -> Ledger:
        return Ledger(event for one in self.all for event in one.events())

    def described(self, *what: str) -> list[dict[str, str]]:
        """Return what Kafka's own tool tells of the group: lines of words by the heads of their columns."""
        command = [java(), "-Xmx128m", "-cp", f"{fetch()}/*"]
        command += ["org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"]
        command += ["--bootstrap-server", self._bootstrap, "--group", self.group, "--describe", *what]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
        heads = next(n for n, line in enumerate(lines) if line[0] == "GROUP")
        return [dict(zip(lines[heads], line, strict=False)) for line in lines[heads + 1 :]]


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = GROUPS | {"group.consumer.session.timeout.ms": SESSION_MS}
    with Cluster(tmp_path_factory.mktemp("kafka"), racks=["alone"], properties=settings) as cluster:
        yield cluster


@pytest.mark.row("C5", part="on a real Kafka, with kills")
@pytest.mark.row("C8", part="on a real Kafka, with kills")
@pytest.mark.interop
@pytest.mark.timeout(600 + 60 * KILLS)
@BOTH
def test_kills_joins_and_leaves_keep_the_ledger(cluster: Cluster, kind: str, tmp_path: Path) -> None:
    """Members are killed, join and leave while records are written: see `Ledger` for what holds."""
    seed = os.environ.get("LOGSTORE_SEED") or str(random.randrange(1 << 32))
    print(f"LOGSTORE_SEED={seed}")
    chance = random.Random(seed)
    scene = Scene(cluster.bootstrap, kind, tmp_path)
    with Client(cluster.bootstrap, is_patient=True) as client:
        client.create_topics([NewTopic(scene.topic, PARTITIONS)])
        writer = Writer(client, scene.topic)
        try:
            for _ in range(MEMBERS):
                scene.join()
            scene.wait_for_shares()
            writer.start()
            turn = 0
            while scene.deaths < KILLS:
                turn += 1
                count = min(chance.choice((1, 1, 2, 3)), KILLS - scene.deaths)
                # Sometimes in the middle of a rebalance.
                if chance.random() < 0.5:
                    scene.wait_for_shares()
                for member in chance.sample(scene.living, count):
                    scene.kill(member)
                for _ in range(count):
                    scene.join()
                if turn % 3 == 0:
                    scene.leave(chance.choice([one for one in scene.living if one.takes_signals]))
                    scene.join()
                # Each second turn, records are read by members at rest.
                if turn % 2:
                    scene.wait_for_shares()
                    assert scene.ledger().faults == [], scene.told()
            scene.wait_for_shares()
            writer.end()
            ends = client.list_offsets({TopicPartition(scene.topic, n): -1 for n in range(PARTITIONS)})
            written = {name.partition: found.offset for name, found in ends.items()}
            assert written == writer.written
            wait_for(lambda: scene.ledger().ends == written, PATIENCE_S, "every record is given", every_s=0.2)
            wait_for(lambda: scene.ledger().committed == {n: {end} for n, end in written.items()}, PATIENCE_S)
            check_with_kafkas_tool(scene, written)
            for member in [*scene.living]:
                scene.leave(member)
                if scene.living:
                    scene.wait_for_shares()
        finally:
            if writer.ident is not None:
                writer.end()
            for member in scene.living:
                member.process.kill()
                member.process.wait()
    ledger = scene.ledger()
    ledger.check(written, deaths=scene.deaths)
    assert ledger.again, "no death has cost anything: the test shows nothing"
    joins = len(scene.all) - MEMBERS
    print(
        f"{kind}: {scene.deaths} kills, {joins} joins, {sum(written.values())} records, {ledger.again} given again"
    )


def check_with_kafkas_tool(scene: Scene, written: dict[int, int]) -> None:
    """`kafka-consumer-groups.sh --describe` sees the members, what they hold, and that nothing is left to read."""
    by_offset = {int(line["PARTITION"]): line for line in scene.described("--offsets")}
    assert {n: int(line["CURRENT-OFFSET"]) for n, line in by_offset.items()} == written
    assert {line["LAG"] for line in by_offset.values()} == {"0"}
    by_member = defaultdict(set)
    for partition, line in by_offset.items():
        by_member[line["CONSUMER-ID"]].add(partition)
    assert sorted(by_member.values(), key=sorted) == sorted((one.held() for one in scene.living), key=sorted)
    members = {line["CONSUMER-ID"]: line for line in scene.described("--members", "--verbose")}
    assert members.keys() == by_member.keys()
    for name, line in members.items():
        assert int(line["#PARTITIONS"]) == len(by_member[name])
        assert scene.topic in " ".join(line.values())
