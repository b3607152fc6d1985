"""What a consumer of a cluster does while brokers fail, move and are slow; and what it leaves behind."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from logstore.batch._encode import encode
from logstore.client.consumer import Consumer
from logstore.client.partition_position import PositionRules
from logstore.config.client import ConsumerConfig
from logstore.errors import (
    BrokerError,
    ClientClosedError,
    CorruptRecordError,
    ForkedError,
    OffsetOutOfRangeError,
    ProtocolError,
    StoreClosedError,
    UnknownPartitionError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from logstore.groups.offsets import OffsetAndMetadata
from logstore.io._notifier import Notifier
from logstore.protocol.generated import messages as m
from logstore.records import TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client
from logstore.remote.cluster import Cluster
from logstore.remote.metadata.bootstrap import BOOTSTRAP_NODE
from logstore.remote.network.loop import NetworkThread
from tests.kit.striking import at_line
from tests.kit.waiting import wait_for
from tests.remote.fake_cluster import ALL, FakeCluster, cut, disconnect, dribble, garbage, silence

FLIGHTS = TopicPartition("flights", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2, long_polls=True) as made:
        made.topic("flights", 4, leaders=(1, 2))
        yield made


class Reader:
    """A consumer and its back end."""

    def __init__(self, cluster: FakeCluster, *, consumer=None, **settings) -> None:
        quick = {
            "metadata_max_age_ms": 60_000,
            "retry_backoff_ms": 5,
            "reconnect_backoff_ms": 5,
            "fetch_max_wait_ms": 50,
            "request_timeout_ms": 2_000,
        }
        self.backend = RemoteBackend(Client(cluster.bootstrap, **{**quick, **settings}))
        given = {"auto_offset_reset": "earliest", **(consumer or {})}
        self.consumer = Consumer(self.backend, ConsumerConfig.of(given))

    def take(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            records = self.consumer.poll(30)
            assert records, f"{len(found)} of {count} came"
            found += [record.value for record in records]
        return found

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.backend.close()


def fetching() -> int:
    return sum(thread.name == "logstore-network" for thread in threading.enumerate())


@pytest.mark.parametrize(
    "fault",
    [6, 3, 5, 7, 9, 14, 74, 75, 78, 100, disconnect, cut, dribble],
    ids=lambda fault: fault if isinstance(fault, int) else fault.__name__,
)
def test_each_record_comes_once_and_in_order_whatever_becomes_of_an_answer(cluster, fault):
    partition = cluster.partition(FLIGHTS)
    partition.add([b"%d" % n for n in range(10)])
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.take(10) == [b"%d" % n for n in range(10)]
        cluster.brokers[1].plan(m.FetchRequest, fault, fault)
        with cluster.lock:
            partition.add([b"%d" % n for n in range(10, 20)])
        assert reader.take(10) == [b"%d" % n for n in range(10, 20)]


def test_a_broker_that_does_not_answer_keeps_no_other_partition_waiting(cluster):
    with Reader(cluster, request_timeout_ms=500) as reader:
        reader.consumer.assign([FLIGHTS, ("flights", 1)])
        assert reader.consumer.poll() == []
        cluster.brokers[1].plan(m.FetchRequest, silence, silence)
        with cluster.lock:
            cluster.topics["flights"].partitions[1].add([b"other"])
        assert reader.take(1) == [b"other"]
        with cluster.lock:
            cluster.partition(FLIGHTS).add([b"late"])
        assert reader.take(1) == [b"late"]


def test_a_partition_is_followed_to_its_new_leader(cluster):
    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        for turn, broker in enumerate((2, 1, 2)):
            with cluster.lock:
                partition.add([b"%d" % turn])
            assert reader.take(1) == [b"%d" % turn]
            cluster.lead(FLIGHTS, broker)


def test_a_broker_that_restarts_is_asked_again(cluster):
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.consumer.poll(0.05) == []
        cluster.brokers[1].stop()
        assert reader.consumer.poll(0.05) == []
        cluster.brokers[1].restart()
        with cluster.lock:
            cluster.partition(FLIGHTS).add([b"back"])
        assert reader.take(1) == [b"back"]


def test_the_nearest_replica_is_fetched_from(cluster):
    partition = cluster.partition(FLIGHTS)
    partition.near["east"] = 2
    partition.add([b"a"])
    with Reader(cluster, client_rack="east") as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.take(1) == [b"a"]
        assert any(isinstance(each, m.FetchRequest) for each in cluster.brokers[2].got)
        # A follower that is gone sends its readers back to the leader.
        cluster.brokers[2].plan(m.FetchRequest, 6)
        with cluster.lock:
            partition.near.clear()
            partition.add([b"b"])
        assert reader.take(1) == [b"b"]


def test_an_offset_that_is_gone_is_reset_by_the_rule(cluster):
    partition = cluster.partition(FLIGHTS)
    partition.add([b"a", b"b"])
    partition.add([b"c"])
    partition.start = 2
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        reader.consumer.seek(FLIGHTS, 0)
        assert reader.take(1) == [b"c"]
    with Reader(cluster, consumer={"auto_offset_reset": "none"}) as reader:
        reader.consumer.assign([FLIGHTS])
        reader.consumer.seek(FLIGHTS, 0)
        with pytest.raises(OffsetOutOfRangeError, match="flights-0"):
            reader.consumer.poll(30)


def test_a_refusal_is_raised_and_ends_nothing(cluster):
    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        cluster.brokers[1].plan(m.FetchRequest, 29)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            reader.consumer.poll(30)
        with cluster.lock:
            partition.add([b"allowed"])
        assert reader.take(1) == [b"allowed"]


def test_an_answer_that_cannot_be_read_is_raised_and_ends_nothing(cluster):
    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        cluster.brokers[1].plan(m.FetchRequest, garbage)
        with pytest.raises(ProtocolError):
            reader.consumer.poll(30)
        with cluster.lock:
            partition.add([b"read"])
        assert reader.take(1) == [b"read"]


def test_a_partition_that_is_assigned_while_a_broker_fails_ends_nothing(cluster, monkeypatch):
    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        fetcher = reader.consumer._fetcher
        is_of = fetcher._loop._is_of

        def assigned_meanwhile(cursor, number) -> bool:
            if cursor.name == FLIGHTS:
                fetcher.cursor(TopicPartition("flights", 2), "")
            return is_of(cursor, number)

        monkeypatch.setattr(fetcher._loop, "_is_of", assigned_meanwhile)
        cluster.brokers[1].plan(m.FetchRequest, garbage)
        with pytest.raises(ProtocolError):
            reader.consumer.poll(5)
        with cluster.lock:
            partition.add([b"read"])
        assert reader.take(1) == [b"read"]


def test_a_seek_while_an_empty_answer_is_taken_does_not_wait_for_the_next_one(cluster, monkeypatch):
    partition = cluster.partition(FLIGHTS)
    partition.add([b"a"])
    with Reader(cluster, fetch_max_wait_ms=300) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.take(1) == [b"a"]
        loop = reader.consumer._fetcher._loop
        decoded, answers = loop._decoded, list[object]()

        def sought_meanwhile(node, call):
            answer = decoded(node, call)
            if not answers and not loop._wakes and node.repeats:
                # In the consumer's thread it would be, which wakes no other while a request is out.
                loop.go_on()
                answers.append(node)
            elif len(answers) == 1:
                answers.append(node)
            return answer

        looks: list[int] = []
        ask_all = loop._ask_all

        def looked(known, now_s):
            looks.append(len(answers))
            return ask_all(known, now_s)

        monkeypatch.setattr(loop, "_ask_all", looked)
        monkeypatch.setattr(loop, "_decoded", sought_meanwhile)
        wait_for(lambda: len(answers) == 2)
        assert 1 in looks, "no look between the seek and the answer after it"


def test_an_answer_to_a_fetch_from_before_a_seek_is_dropped(cluster):
    partition = cluster.partition(FLIGHTS)
    partition.add([b"%d" % n for n in range(10)])
    with Reader(cluster, fetch_max_wait_ms=1_500) as reader:
        reader.consumer.assign([FLIGHTS])
        assert len(reader.take(10)) == 10
        loop = reader.consumer._fetcher._loop
        wait_for(lambda: (asked := loop._nodes[1].asked.get(FLIGHTS)) and asked.offset == 10)
        wait_for(lambda: loop._nodes[1].requests.is_out)
        reader.consumer.seek(FLIGHTS, 3)
        assert reader.consumer.poll() == []
        with cluster.lock:
            partition.add([b"10"])
        assert reader.take(8) == [b"%d" % n for n in range(3, 11)]


def test_polls_that_never_wait_get_the_records_too(cluster):
    cluster.partition(FLIGHTS).add([b"a"])
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        found: list[bytes] = []
        wait_for(lambda: found.extend(record.value for record in reader.consumer.poll()) or found)
        assert found == [b"a"]


def test_a_damaged_batch_is_named(cluster):
    partition = cluster.partition(FLIGHTS)
    partition.add([b"a" * 100])
    partition.batches[0] = partition.batches[0][:-3] + b"\0\0\0"
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        with pytest.raises(CorruptRecordError):
            reader.consumer.poll(30)


def test_a_batch_that_is_larger_than_a_fetch_comes_whole(cluster):
    value = os.urandom(300_000)
    partition = cluster.partition(FLIGHTS)
    partition.add([value])
    partition.add([b"next"])
    with Reader(cluster, max_partition_fetch_bytes=1_000) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.take(2) == [value, b"next"]


@pytest.mark.parametrize("of_consumer", [True, False])
def test_what_is_fetched_ahead_is_bounded(cluster, of_consumer):
    for partition in cluster.topics["flights"].partitions:
        for _ in range(50):
            partition.add([os.urandom(10_000)])
    bounds = {"max_partition_fetch_bytes": 50_000, "fetch_max_bytes": 120_000}
    with Reader(cluster, **({"consumer": bounds} if of_consumer else bounds)) as reader:
        reader.consumer.assign([("flights", number) for number in range(4)])
        loop = reader.consumer._fetcher._loop
        most = 0
        for _ in range(200):
            [record] = reader.consumer.poll(30, 1)
            assert len(record.value) == 10_000
            most = max(most, sum(cursor.buffered for cursor in loop.cursors.values()))
        assert 20_000 < most <= 120_000
        assert reader.consumer.poll() == []


@pytest.mark.parametrize("timeout_s", [0, 10])
@pytest.mark.parametrize("fetch_max_bytes", [50_000, 120_000])
def test_what_waits_for_a_paused_partition_keeps_no_other_from_being_fetched(cluster, timeout_s, fetch_max_bytes):
    for partition in cluster.topics["flights"].partitions:
        for number in range(20):
            partition.add([b"%d" % number + bytes(10_000)])
    others = [TopicPartition("flights", number) for number in (1, 2, 3)]
    with Reader(cluster, max_partition_fetch_bytes=50_000, fetch_max_bytes=fetch_max_bytes) as reader:
        reader.consumer.assign(others)
        first = reader.consumer.poll(30, 1)
        loop = reader.consumer._fetcher._loop
        wait_for(lambda: fetch_max_bytes - sum(each.buffered for each in loop.cursors.values()) < 50_000)
        reader.consumer.assign([FLIGHTS, *others])
        reader.consumer.pause(*others)
        found: list[bytes] = []
        wait_for(
            lambda: (
                found.extend(record.value.rstrip(bytes(1)) for record in reader.consumer.poll(timeout_s))
                or len(found) == 20
            ),
            timeout_s=20,
        )
        assert found == [b"%d" % number for number in range(20)]
        # What was dropped to make way comes all the same.
        reader.consumer.resume(*others)
        came = [(each.partition, each.offset) for each in first]
        while len(came) < 60:
            records = reader.consumer.poll(10)
            assert records, f"{len(came)} of 60 came"
            came += [(each.partition, each.offset) for each in records]
        assert sorted(came) == [(number, offset) for number in (1, 2, 3) for offset in range(20)]


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_partition_is_fetched_again_once_it_is_resumed_whatever_the_others_do(cluster, is_busy):
    """A poll that finds records of others, or does not wait, tells the fetcher nothing of what is wanted."""
    two = cluster.topics["flights"].partitions[1]
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS, ("flights", 1)])
        assert reader.consumer.poll(0.1) == []
        reader.consumer.pause(FLIGHTS)
        assert reader.consumer.poll(0.1) == []
        loop = reader.consumer._fetcher._loop
        wait_for(lambda: not loop._nodes[1].requests.is_out)
        reader.consumer.resume(FLIGHTS)
        with cluster.lock:
            cluster.partition(FLIGHTS).add([b"resumed"])

        def found() -> bool:
            if is_busy:
                with cluster.lock:
                    two.add([b"other"])
                wait_for(lambda: loop.cursors["flights", 1].buffered)
            return b"resumed" in [record.value for record in reader.consumer.poll()]

        wait_for(found, timeout_s=5)


def test_a_paused_partition_is_not_fetched(cluster):
    one, two = cluster.topics["flights"].partitions[:2]
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS, ("flights", 1)])
        reader.consumer.pause(FLIGHTS)
        assert reader.consumer.poll(0.1) == []
        before = len(cluster.brokers[1].got)
        with cluster.lock:
            one.add([b"paused"])
            two.add([b"read"])
        assert reader.take(1) == [b"read"]
        assert reader.consumer.poll(0.2) == []
        asked = [each for each in cluster.brokers[1].got[before:] if isinstance(each, m.FetchRequest)]
        # The one that was under way when the partition was paused.
        assert len(asked) <= 1
        reader.consumer.resume(FLIGHTS)
        assert reader.take(1) == [b"paused"]


def test_records_of_aborted_transactions_are_left_out(cluster):
    partition = cluster.partition(FLIGHTS)
    partition.add([b"kept"])
    first = partition.put(
        encode([b"aborted"], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    )
    partition.mark(7, commit=False, first=first)
    partition.add([b"after"])
    with Reader(cluster, consumer={"isolation_level": "read_committed"}) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.take(2) == [b"kept", b"after"]


def test_the_fetches_end_with_the_consumer_and_the_thread_with_the_back_end(cluster):
    before = fetching()
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.consumer.poll() == []
        other = Consumer(reader.backend, ConsumerConfig.of({"auto_offset_reset": "earliest"}))
        other.assign([("flights", 1)])
        assert other.poll() == []
        assert fetching() == before + 1, "one thread for all consumers of a client"
        wait_for(lambda: all(each.sessions for each in cluster.brokers.values()))
        loop = reader.consumer._fetcher._loop
        reader.consumer.close()
        other.close()
        wait_for(lambda: not any(node.connection for node in loop._nodes.values() if node.connection.error is None))
        count = len(cluster.requests(m.FetchRequest))
        assert reader.backend._client.metadata(["flights"]) is not None
        assert len(cluster.requests(m.FetchRequest)) == count
    assert fetching() == before


def test_the_fetches_of_a_dropped_consumer_end_and_with_its_client_the_thread(cluster):
    before = fetching()
    reader = Reader(cluster)
    reader.consumer.assign([FLIGHTS])
    assert reader.consumer.poll() == []
    client = reader.backend._client
    wait_for(lambda: cluster.requests(m.FetchRequest))
    del reader
    gc.collect()
    wait_for(lambda: len(client.cluster.network.thread._services) == 1, what="that of the metadata is left")
    client.close()
    assert fetching() == before


def test_a_closed_back_end_ends_its_consumers(cluster):
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        found: list[BaseException] = []

        def polling() -> None:
            try:
                reader.consumer.poll(30)
            except (StoreClosedError, ClientClosedError) as error:
                found.append(error)

        thread = threading.Thread(target=polling)
        thread.start()
        wait_for(lambda: cluster.requests(m.FetchRequest))
        reader.backend.close()
        thread.join(30)
        assert not thread.is_alive()
        assert len(found) == 1


def forked_reader(reader: Reader) -> int:
    """Return a forked child that polls; it ends with 7 if that is refused."""
    child = os.fork()
    if not child:
        try:
            reader.consumer.poll()
        except ForkedError:
            os._exit(7)
        finally:
            os._exit(1)
    return child


def test_a_forked_child_is_refused(cluster):
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.consumer.poll() == []
        child = forked_reader(reader)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_forked_child_is_refused_while_beginnings_are_asked_for(cluster, monkeypatch):
    """The thread that asks is the parent's: nothing would end the wait for it."""
    may_end = threading.Event()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(PositionRules, "_look_up", lambda *_: may_end.wait(60))
    with Reader(cluster, default_api_timeout_ms=1_000) as reader:
        reader.consumer.assign([FLIGHTS])
        with monkeypatch.context() as patched:
            patched.setattr(PositionRules, "_wait", interrupt)
            with pytest.raises(KeyboardInterrupt):
                reader.consumer.poll()
        child = forked_reader(reader)
        may_end.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def _turns_of(thread: NetworkThread) -> list[None]:
    """A list that grows by one with each turn of the thread of the sockets from now on."""
    turns: list[None] = []
    turn = thread._turn

    def counted() -> None:
        turns.append(None)
        turn()

    # The thread looks it up for each turn; mypy wants no method replaced.
    thread._turn = counted  # type: ignore[method-assign]
    return turns


# --- who runs first ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "expected"), [(10, "notify_first"), (20_000, "notify")])
def test_few_records_are_handed_out_before_the_next_fetch_and_many_behind_it(cluster, size, expected):
    class Told:
        """A notifier that takes note of how it is told."""

        def __init__(self, notifier: Notifier) -> None:
            self.calls: list[str] = []
            self._notifier = notifier

        def __getattr__(self, name: str) -> object:
            if name.startswith("notify"):
                self.calls.append(name)
            return getattr(self._notifier, name)

    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.consumer.poll(0.1) == []
        loop = reader.consumer._fetcher._loop
        told = loop.notifier = Told(loop.notifier)
        with cluster.lock:
            partition.add([b"v" * size])
        assert reader.take(1) == [b"v" * size]
        assert told.calls[0] == expected


# --- sessions ----------------------------------------------------------------------------------------


def test_a_thousand_idle_partitions_cost_one_long_poll_for_each_broker(cluster):
    cluster.topic("wide", 1_000, leaders=(1, 2))
    with Reader(cluster, fetch_max_wait_ms=300) as reader:
        reader.consumer.assign([("wide", number) for number in range(1_000)])
        assert reader.consumer.poll(0.1) == []
        wait_for(
            lambda: all(
                isinstance(each.got[-1], m.FetchRequest) and not each.got[-1].topics
                for each in cluster.brokers.values()
            )
        )
        before = {number: len(broker.got) for number, broker in cluster.brokers.items()}
        turns = _turns_of(reader.backend._client.cluster.network.thread)
        began = time.monotonic()
        assert reader.consumer.poll(1.0) == []
        most = (time.monotonic() - began) / 0.3 + 2
        # An answer, and the request that follows it, of each of two brokers; none for a partition.
        assert 1 <= len(turns) <= 2 * 2 * most
        for number, broker in cluster.brokers.items():
            asked = broker.got[before[number] :]
            assert 1 <= len(asked) <= most
            assert all(isinstance(each, m.FetchRequest) for each in asked)
            assert not any(each.topics or each.forgotten_topics_data for each in asked)
        with cluster.lock:
            cluster.topics["wide"].partitions[617].add([b"found"])
        assert reader.take(1) == [b"found"]
        wait_for(lambda: [each for each in cluster.brokers[2].got[before[2] :] if each.topics])
        changed = [each for each in cluster.brokers[2].got[before[2] :] if each.topics]
        assert [part.partition for topic in changed[0].topics for part in topic.partitions] == [617]


@pytest.mark.parametrize("how", ["forgotten", "another epoch", "refused"])
def test_a_session_that_a_broker_loses_begins_again(cluster, how):
    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.consumer.poll(0.1) == []
        for turn in range(3):
            with cluster.lock:
                if how == "forgotten":
                    cluster.brokers[1].sessions.clear()
                elif how == "refused":
                    cluster.brokers[1].plan(m.FetchRequest, {"error_code": 71, "responses": []})
                else:
                    found = cluster.brokers[1].sessions
                    found.update({number: (epoch + 3, held) for number, (epoch, held) in found.items()})
                partition.add([b"%d" % turn])
            assert reader.take(1) == [b"%d" % turn]


def test_brokers_without_sessions_are_asked_in_full(cluster):
    cluster.versions = ALL | {m.FetchRequest.API_KEY: (4, 6)}
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS, ("flights", 1)])
        for turn in range(3):
            with cluster.lock:
                cluster.partition(FLIGHTS).add([b"%d" % turn])
            assert reader.take(1) == [b"%d" % turn]


def test_brokers_that_are_too_old_are_named(cluster):
    cluster.versions = ALL | {m.FetchRequest.API_KEY: (0, 3)}
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        with pytest.raises(UnsupportedVersionError, match="knows versions 0 to 3 of FetchRequest"):
            reader.consumer.poll(30)


def test_a_broker_over_its_quota_is_left_alone_for_as_long_as_it_says(cluster):
    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.consumer.poll(0.1) == []
        cluster.brokers[1].plan(m.FetchRequest, {"throttle_time_ms": 400, "responses": []})
        wait_for(lambda: not cluster.brokers[1]._faults[m.FetchRequest.API_KEY])
        with cluster.lock:
            partition.add([b"later"])
        began = time.monotonic()
        assert reader.take(1) == [b"later"]
        assert time.monotonic() - began >= 0.25


# --- leaders -----------------------------------------------------------------------------------------


def test_a_leader_that_an_answer_names_is_asked_without_metadata(cluster):
    partition = cluster.partition(FLIGHTS)
    cluster.tells_leaders = True
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        partition.add([b"a"])
        assert reader.take(1) == [b"a"]
        count = len(cluster.requests(m.MetadataRequest))
        for turn, broker in enumerate((2, 1, 2)):
            cluster.lead(FLIGHTS, broker)
            with cluster.lock:
                partition.add([b"%d" % turn])
            assert reader.take(1) == [b"%d" % turn]
        assert len(cluster.requests(m.MetadataRequest)) == count


def test_a_position_is_checked_with_a_new_leader_before_it_is_fetched(cluster):
    partition = cluster.partition(FLIGHTS)
    partition.add([b"a"])
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.take(1) == [b"a"]
        cluster.lead(FLIGHTS, 2)
        with cluster.lock:
            partition.add([b"b"])
        assert reader.take(1) == [b"b"]
        [asked] = cluster.requests(m.OffsetForLeaderEpochRequest)
        assert [part.leader_epoch for topic in asked.topics for part in topic.partitions] == [0]


def test_a_log_that_was_cut_is_read_from_where_it_was_cut(cluster):
    partition = cluster.partition(FLIGHTS)
    for number in range(10):
        partition.add([b"%d" % number])
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.take(10) == [b"%d" % number for number in range(10)]
        with cluster.lock:
            partition.cut(6)
            partition.leader = 2
            partition.add([b"new 6", b"new 7", b"new 8", b"new 9", b"new 10"])
            # The end of the epoch that was read: the first offset of the next one.
            partition.ends[0] = 6
        assert reader.take(5) == [b"new %d" % number for number in range(6, 11)]


@pytest.mark.parametrize("by", ["commit", "seek", "error", "cut"])
def test_a_position_at_which_nothing_has_come_yet_is_checked_with_a_new_leader(cluster, by):
    """Its epoch is known from the commit, from the caller, or from what was read before."""
    partition = cluster.partition(FLIGHTS)
    for number in range(10):
        partition.add([b"%d" % number])
    cluster.offsets["crew"][FLIGHTS] = (10, "", 0)
    with Reader(cluster, consumer={"group_id": "crew"} if by == "commit" else {}) as reader:
        consumer = reader.consumer
        consumer.assign([FLIGHTS])
        if by == "seek":
            consumer.seek(FLIGHTS, OffsetAndMetadata(10, leader_epoch=0))
        elif by != "commit":
            assert len(reader.take(10)) == 10
        if by == "error":
            cluster.brokers[1].plan(m.FetchRequest, 29)
            with pytest.raises(BrokerError):
                consumer.poll(30)
        if by == "cut":
            with cluster.lock:
                partition.cut(8)
                partition.leader = 2
                partition.ends[0] = 8
            wait_for(lambda: consumer.poll(0.05) == [] and consumer.position(FLIGHTS) == 8)
        assert consumer.poll(0.2) == []
        at = consumer.position(FLIGHTS)
        asked = [topic.partitions for each in cluster.requests(m.FetchRequest) for topic in each.topics]
        assert {part.last_fetched_epoch for parts in asked for part in parts if part.fetch_offset == at} == {0}
        with cluster.lock:
            partition.cut(6)
            partition.leader = 3 - partition.leader
            for number in range(6, 12):
                partition.add([b"new %d" % number])
            partition.ends[0] = 6
        assert reader.take(6) == [b"new %d" % number for number in range(6, 12)]


@pytest.mark.parametrize("rule", ["earliest", "none"])
def test_an_epoch_that_the_leader_does_not_know_is_as_an_offset_out_of_range(cluster, rule):
    partition = cluster.partition(FLIGHTS)
    partition.add([b"a", b"b"])
    with Reader(cluster, consumer={"auto_offset_reset": rule}) as reader:
        reader.consumer.assign([FLIGHTS])
        for _ in range(2):
            reader.consumer.seek(FLIGHTS, OffsetAndMetadata(1, leader_epoch=7))
            if rule == "none":
                with pytest.raises(OffsetOutOfRangeError, match="knows no epoch"):
                    reader.consumer.poll(30)
            else:
                assert reader.take(2) == [b"a", b"b"]


def test_a_partition_without_a_leader_keeps_no_other_waiting(cluster):
    with cluster.lock:
        cluster.partition(FLIGHTS).leader = -1
        cluster.topics["flights"].partitions[1].add([b"led"])
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS, ("flights", 1)])
        for number in (0, 1):
            reader.consumer.seek(("flights", number), 0)
        assert reader.take(1) == [b"led"]
        with cluster.lock:
            cluster.partition(FLIGHTS).add([b"led again"])
        cluster.lead(FLIGHTS, 2)
        assert reader.take(1) == [b"led again"]
        with pytest.raises(UnknownPartitionError, match="no 4"):
            reader.consumer.assign([("flights", 4)])


OTHER = TopicPartition("flights", 1)


def test_a_partition_whose_beginning_no_leader_tells_keeps_no_other_waiting(cluster):
    with cluster.lock:
        cluster.partition(FLIGHTS).leader = -1
        cluster.partition(OTHER).add([b"led"])
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS, OTHER])
        assert reader.take(1) == [b"led"]
        assert reader.consumer.poll() == []
        with cluster.lock:
            cluster.partition(FLIGHTS).add([b"led again"])
        cluster.lead(FLIGHTS, 2)
        assert reader.take(1) == [b"led again"]
        assert reader.consumer.position(FLIGHTS) == 1


@pytest.mark.parametrize("group", ["", "crew"])
@pytest.mark.parametrize("rule", ["earliest", "latest", "by_duration:PT1H"])
def test_a_leader_that_does_not_tell_beginnings_keeps_no_other_waiting(cluster, group, rule):
    """A minute of silence, the other's records come meanwhile; an answer comes to a later question."""
    cluster.partition(FLIGHTS).add([b"old"], timestamp_ms=1)
    for number in (0, 1):
        cluster.offsets["crew"][TopicPartition("flights", number)] = (0, "", 0)
    cluster.brokers[1].plan(m.ListOffsetsRequest, *[silence] * 2)
    cluster.brokers[1].plan(m.OffsetForLeaderEpochRequest, silence)
    with Reader(
        cluster, request_timeout_ms=60_000, consumer={"auto_offset_reset": rule, "group_id": group}
    ) as reader:
        reader.consumer.assign([FLIGHTS, OTHER])
        assert reader.consumer.poll() == []
        with cluster.lock:
            cluster.partition(OTHER).add([b"led"])
        assert reader.take(1) == [b"led"]
        wait_for(lambda: reader.consumer.poll(0.1) or reader.consumer._subscription.partitions[FLIGHTS].offset >= 0)
        with cluster.lock:
            cluster.partition(FLIGHTS).add([b"late"])
        wait_for(lambda: [record.value for record in reader.consumer.poll(0.1)][-1:] == [b"late"])


def test_a_poll_asks_for_no_metadata_while_beginnings_are_not_told(cluster, monkeypatch):
    """The broker that tells no beginning could be the one that is asked: it may be frozen."""
    refresh, callers = Cluster.refresh, []

    def noted(*args):
        callers.append(threading.current_thread().name)
        return refresh(*args)

    cluster.brokers[1].plan(m.ListOffsetsRequest, silence, 6)
    with Reader(cluster, request_timeout_ms=60_000) as reader:
        reader.consumer.assign_topics("flights")
        monkeypatch.setattr(Cluster, "refresh", noted)
        partition = reader.consumer._subscription.partitions[FLIGHTS]
        wait_for(lambda: reader.consumer.poll(0.1) or partition.offset >= 0)
        assert set(callers) == {"logstore-positions"}
        assert len(callers) == 2, "each later round asks where the leaders are by now"


@pytest.mark.parametrize("rule", ["earliest", "latest"])
def test_a_reset_that_no_leader_answers_keeps_no_other_waiting(cluster, rule):
    cluster.partition(FLIGHTS).add([b"0"])
    cluster.partition(FLIGHTS).add([b"1"])
    cluster.offsets["crew"][FLIGHTS] = (0, "", -1)
    with Reader(
        cluster, request_timeout_ms=60_000, consumer={"auto_offset_reset": rule, "group_id": "crew"}
    ) as reader:
        reader.consumer.assign([FLIGHTS, OTHER])
        reader.consumer.seek(FLIGHTS, 9)  # behind the end
        cluster.brokers[1].plan(m.ListOffsetsRequest, silence, silence)
        wait_for(lambda: reader.consumer.poll(0.05) or reader.consumer._subscription.partitions[FLIGHTS].offset < 0)
        with cluster.lock:
            cluster.partition(OTHER).add([b"led"])
        assert reader.take(1) == [b"led"]
        reader.consumer.commit()
        assert cluster.offsets["crew"][FLIGHTS] == (0, "", -1), "no offset is committed that is out of range"
        if rule == "earliest":
            assert reader.take(2) == [b"0", b"1"]
        else:
            wait_for(lambda: reader.consumer.poll(0.1) or reader.consumer.position(FLIGHTS) == 2)


def test_partitions_without_a_leader_are_asked_for_together_and_not_in_a_hurry(cluster):
    partitions = cluster.topic("many", 60, leaders=(1, 2))
    with cluster.lock:
        for number, partition in enumerate(partitions):
            partition.leader = 2 if number == 0 else -1
    with Reader(cluster, retry_backoff_ms=50, retry_backoff_max_ms=50) as reader:
        reader.consumer.assign_topics("many")
        for _ in range(20):
            assert reader.consumer.poll(0.02) == []
            assert sum(each.name == "logstore-positions" for each in threading.enumerate()) <= 1
            with cluster.lock:
                partitions[0].add([b"led"])
            assert reader.take(1) == [b"led"]
        rounds = max(one.failures for one in reader.consumer._subscription.turns)
        assert rounds >= 2
        asked = sum(len(request.topics or ()) for request in cluster.requests(m.MetadataRequest))
        assert asked <= 40 * (rounds + 5), "each round asks once for the topic"
        with cluster.lock:
            for partition in partitions[1:]:
                partition.leader = 1
                partition.add([b"led again"])
        assert reader.take(59) == [b"led again"] * 59


def test_the_place_of_a_partition_that_is_sought_is_not_found_out(cluster):
    with cluster.lock:
        cluster.partition(FLIGHTS).add([b"0", b"1", b"2"])
        cluster.partition(FLIGHTS).leader = -1
        cluster.partition(OTHER).add([b"led"])
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS, OTHER])
        assert reader.take(1) == [b"led"]
        reader.consumer.seek(FLIGHTS, 2)
        cluster.lead(FLIGHTS, 2)
        assert reader.take(1) == [b"2"]


def test_partitions_without_any_leader_are_waited_for_and_then_raised(cluster):
    with cluster.lock:
        cluster.partition(FLIGHTS).leader = cluster.partition(OTHER).leader = -1
        cluster.partition(OTHER).add([b"led"])
    with Reader(cluster, default_api_timeout_ms=300) as reader:
        reader.consumer.assign([FLIGHTS, OTHER])
        with pytest.raises(BrokerError, match="has no leader now") as caught:
            reader.consumer.poll()
        assert "where the assigned partitions begin" in str(caught.value.__notes__)
        cluster.lead(OTHER, 2)
        assert reader.take(1) == [b"led"]


def test_an_error_of_one_topic_that_lasts_is_raised_by_each_poll(cluster):
    cluster.brokers[1].plan(m.ListOffsetsRequest, 29, 29)
    cluster.partition(OTHER).add([b"led"])
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS, OTHER])
        for _ in range(2):
            with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
                reader.consumer.poll()
        assert reader.take(1) == [b"led"]


def test_a_topic_that_is_deleted_is_raised_and_the_others_go_on(cluster):
    cluster.topic("gone")
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS, ("gone", 0)])
        assert reader.consumer.poll(0.1) == []
        with cluster.lock:
            del cluster.topics["gone"]
        with pytest.raises(UnknownTopicError):
            reader.consumer.poll(30)


def test_a_deleted_topic_is_not_asked_for_once_no_consumer_reads_it(cluster):
    def asked():
        return len(cluster.requests(m.MetadataRequest))

    cluster.topic("gone")
    with Reader(cluster, retry_backoff_max_ms=20) as reader:
        reader.consumer.assign([FLIGHTS, ("gone", 0)])
        assert reader.consumer.poll(0.1) == []
        with cluster.lock:
            del cluster.topics["gone"]
        with pytest.raises(UnknownTopicError):
            reader.consumer.poll(30)
        updates = reader.backend._client.cluster.updates
        before = asked()
        reader.consumer.assign([FLIGHTS])
        wait_for(lambda: not updates.is_wanted("gone"))
        assert asked() - before < 20
        before = asked()
        assert reader.consumer.poll(0.3) == []
        assert asked() == before
        with cluster.lock:
            cluster.partition(FLIGHTS).add([b"read on"])
        assert reader.take(1) == [b"read on"]


def test_a_topic_of_the_same_name_is_not_read_for_the_deleted_one(cluster):
    cluster.topic("gone")[0].add([b"old"])
    with Reader(cluster) as reader:
        reader.consumer.assign([("gone", 0)])
        assert reader.take(1) == [b"old"]
        with cluster.lock:
            cluster.topic("gone")[0].add([b"never", b"never"])
        with pytest.raises(UnknownTopicError, match=r"another (topic has that|one has its) name"):
            reader.consumer.poll(30)


def test_a_broker_that_asks_for_it_is_left_for_the_bootstrap_servers(cluster):
    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        assert reader.consumer.poll(0.1) == []
        for each in cluster.brokers.values():
            each.plan(m.MetadataRequest, {"error_code": 129, "topics": [], "brokers": []})
        cluster.lead(FLIGHTS, 2)
        with cluster.lock:
            partition.add([b"a"])
        assert reader.take(1) == [b"a"]
        # A broker that is known only by its bootstrap address has no number.
        assert reader.backend._client.cluster.updates._connection.node == BOOTSTRAP_NODE


def test_brokers_may_restart_one_after_the_other(cluster):
    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS, ("flights", 1)])
        for turn in range(3):
            for number, broker in cluster.brokers.items():
                broker.stop()
                broker.sessions.clear()
                broker.restart()
                with cluster.lock:
                    cluster.topics["flights"].partitions[number - 1].add([b"%d-%d" % (turn, number)])
                assert reader.take(1) == [b"%d-%d" % (turn, number)]
    assert partition.end == 3


def test_each_record_comes_once_wherever_an_answer_is_cut(cluster):
    partition = cluster.partition(FLIGHTS)
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])
        for part in range(0, 60, 3):

            def cut_there(broker, connection, frame, part=part) -> bool:
                connection.sendall(frame[: len(frame) * part // 60])
                raise ConnectionError

            cluster.brokers[1].plan(m.FetchRequest, cut_there)
            with cluster.lock:
                partition.add([b"%d" % part])
            assert reader.take(1) == [b"%d" % part]


@pytest.mark.parametrize("seed", range(4))
def test_each_record_comes_once_and_in_order_whatever_happens(cluster, seed):
    chance = random.Random(seed)
    cluster.tells_leaders = bool(seed % 2)
    partitions = cluster.topics["flights"].partitions
    written: list[list[bytes]] = [[] for _ in partitions]
    came: list[list[bytes]] = [[] for _ in partitions]
    faults = [3, 5, 6, 9, 74, 75, 78, 100, disconnect, cut, {"throttle_time_ms": 20}]

    def happen() -> None:
        broker = cluster.brokers[chance.randint(1, 2)]
        what = chance.randrange(5)
        if what == 0:
            cluster.lead(TopicPartition("flights", chance.randrange(4)), chance.randint(1, 2))
        elif what == 1:
            broker.sessions.clear()
        elif what == 2 and chance.random() < 0.3:
            broker.stop()
            broker.restart()
        else:
            broker.plan(m.FetchRequest, *chance.choices(faults, k=chance.randint(1, 3)))

    with Reader(cluster, fetch_max_wait_ms=20) as reader:
        reader.consumer.assign([("flights", number) for number in range(4)])
        for turn in range(60):
            happen()
            number = chance.randrange(4)
            values = [b"%d-%d" % (turn, each) for each in range(chance.randint(1, 3))]
            with cluster.lock:
                partitions[number].add(values)
            written[number] += values
            for record in reader.consumer.poll(0.02):
                came[record.partition].append(record.value)
        until = time.monotonic() + 60
        while came != written:
            assert time.monotonic() < until, f"seed {seed}: {came} of {written}"
            for record in reader.consumer.poll(0.5):
                came[record.partition].append(record.value)
        assert reader.consumer.poll(0.1) == []


def test_an_interrupt_ends_a_poll_and_nothing_else(cluster):
    with Reader(cluster) as reader:
        reader.consumer.assign([FLIGHTS])

        def interrupt() -> None:
            wait_for(lambda: cluster.requests(m.FetchRequest))
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  the interrupt may come early
            thread.start()
            reader.consumer.poll(30)
        thread.join()
        with cluster.lock:
            cluster.partition(FLIGHTS).add([b"after"])
        assert reader.take(1) == [b"after"]


def test_a_poll_that_is_interrupted_at_any_line_loses_no_record_and_hands_out_none_twice(cluster):
    for number in range(2):
        for batch in range(3):
            cluster.topics["flights"].partitions[number].add([b"%d" % n for n in range(batch * 3, batch * 3 + 3)])
    with Reader(cluster, fetch_max_wait_ms=5) as reader:
        consumer = reader.consumer
        consumer.assign([FLIGHTS, ("flights", 1)])
        for nth in itertools.count(1):
            consumer.seek_to_beginning()
            came = [consumer.poll(30, max_records=1)[0]]
            struck, where, records = at_line(nth, lambda: consumer.poll(30, max_records=12))
            came += records or []
            while len(came) < 18:
                came += consumer.poll(5) or pytest.fail(f"lost at {where}")
            for number in range(2):
                offsets = [record.offset for record in came if record.partition == number]
                assert offsets == list(range(9)), where
            if not struck:
                return


def test_an_automatic_commit_keeps_no_poll_waiting(cluster, caplog):
    partition = cluster.partition(FLIGHTS)
    partition.add([b"%d" % n for n in range(4)])
    may_answer = threading.Event()
    was_free = []

    def slow(broker, connection, frame):
        was_free.append(may_answer.wait(3))
        connection.sendall(frame)
        return True

    own = {"group_id": "crew", "auto_commit_interval_ms": 0}
    with Reader(cluster, consumer=own, request_timeout_ms=60_000) as reader:
        reader.consumer.assign([FLIGHTS])
        for broker in cluster.brokers.values():
            broker.plan(m.OffsetCommitRequest, slow)
        assert [record.value for record in reader.consumer.poll(30, 1)] == [b"0"]
        assert [record.value for record in reader.consumer.poll(30, 1)] == [b"1"]
        wait_for(lambda: cluster.requests(m.OffsetCommitRequest))
        # While it has no answer no other one is made: the next has its records, too.
        for _ in range(3):
            reader.consumer._commits.settle()
        assert not reader.consumer._commits._queue._waiting
        may_answer.set()
        wait_for(lambda: was_free)
        assert was_free == [True]
        # A refused one is logged, and the next one has its records.
        for broker in cluster.brokers.values():
            broker.plan(m.OffsetCommitRequest, *[29] * 3)  # TOPIC_AUTHORIZATION_FAILED
        assert [record.value for record in reader.consumer.poll(30, 1)] == [b"2"]
        reader.consumer._commits.drain()
        assert [record.value for record in reader.consumer.poll(30, 1)] == [b"3"]
        assert "not committed: group=crew" in caplog.text
        for broker in cluster.brokers.values():
            broker._faults.clear()
        reader.consumer.close()
        assert cluster.offsets["crew"][FLIGHTS][0] == 4
