"""What nodes meet: answers, registries, transports and clocks that are wrong. They go on, and name what is so."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from logstore.clock import SystemClock
from logstore.errors import MalformedFactError, RegistryUnreachableError
from logstore.replication import (
    Change,
    Create,
    Delete,
    Fact,
    FetchAnswer,
    LocalRegistry,
    Node,
    Registry,
    RegistryWatch,
    Write,
)
from logstore.replication.api import Diverging, FetchRefusal
from logstore.replication.deletion import request_path
from logstore.replication.fetch_messages import Slot, decode_answers, decode_question, encode_answers
from logstore.replication.node.registry_loop import TICK_S, RegistryLoop
from logstore.store.catalog.topic_list import new_id
from tests.kit.waiting import wait_for

TOPIC = "/brokers/topics/t"
STATE = f"{TOPIC}/partitions/0/state"
HOUR_MS = 3_600_000

# -- a leader's answers


def told(change: Callable[[FetchAnswer], FetchAnswer]) -> Callable[[bytes, bytes], bytes]:
    """Change what a leader says of each partition."""

    def alter(request: bytes, answer: bytes) -> bytes:
        number = decode_question(request).correlation_id
        answers = decode_answers(answer, number).answers
        return encode_answers({slot: change(each) for slot, each in answers.items()}, number)

    return alter


def stored(change: Callable[[bytes], bytes]) -> Callable[[bytes, bytes], bytes]:
    """Change the records that a leader sends."""
    return told(lambda each: each._replace(records=change(bytes(each.records))) if each.records else each)


def of_another_partition(request: bytes, answer: bytes) -> bytes:
    number = decode_question(request).correlation_id
    answers = decode_answers(answer, number).answers
    return encode_answers({Slot(new_id(), 0): each for each in answers.values()}, number)


def renumbered(request: bytes, answer: bytes) -> bytes:
    return struct.pack(">i", decode_question(request).correlation_id - 1) + answer[4:]


class OneLate:
    """Gives each time the answer to the question before: late, and out of order."""

    def __init__(self) -> None:
        self._last = b""

    def __call__(self, request: bytes, answer: bytes) -> bytes:
        last, self._last = self._last, answer
        return last


def with_offset(change: int) -> Callable[[bytes], bytes]:
    return lambda run: struct.pack(">q", int.from_bytes(run[:8], "big") + change) + run[8:]


def with_epoch(epoch: int) -> Callable[[bytes], bytes]:
    return lambda run: run[:12] + struct.pack(">i", epoch) + run[16:]


WRONG = {
    "nothing": (lambda request, answer: b"", "MalformedMessageError"),
    "no bytes": (lambda request, answer: None, "TypeError"),
    "cut in its header": (lambda request, answer: answer[:3], "MalformedMessageError"),
    "cut in its records": (lambda request, answer: answer[:-9], "MalformedMessageError"),
    "with bytes behind it": (lambda request, answer: answer + b"x", "MalformedMessageError"),
    "garbled": (lambda request, answer: answer[:8] + b"\xff" * 12 + answer[20:], "Error"),
    "an answer to another question": (renumbered, "an answer to request"),
    "one late": (OneLate(), "MalformedMessageError"),
    "of another partition": (of_another_partition, "lacks the partition"),
    "of an older epoch": (told(lambda each: each._replace(leader_epoch=0)), "answer of leader epoch 0"),
    "of a newer epoch": (told(lambda each: each._replace(leader_epoch=9)), "answer of leader epoch 9"),
    "a record flipped": (stored(lambda run: run[:-1] + bytes([run[-1] ^ 1])), "CorruptRecordError"),
    "a batch cut": (stored(lambda run: run[:-1]), "CorruptRecordError"),
    "an offset too low": (stored(with_offset(-1)), "UnexpectedOffsetError"),
    "an offset too high": (stored(with_offset(1)), "UnexpectedOffsetError"),
    "a batch of an older epoch": (stored(with_epoch(0)), "FencedLeaderEpochError"),
    "a batch of a newer epoch": (stored(with_epoch(7)), "InvalidRecordError"),
    "a log start above all": (told(lambda each: each._replace(log_start_offset=2**40)), "log start offset"),
    "a log start below zero": (told(lambda each: each._replace(log_start_offset=-7)), "log start offset"),
    "out of a range that it is in": (
        told(lambda each: each._replace(refusal=FetchRefusal.OUT_OF_RANGE, log_start_offset=0, records=None)),
        "log start offset",
    ),
    "a divergence below zero": (told(lambda each: each._replace(diverging=Diverging(1, -5))), "end_offset=-5"),
    "a divergence of a newer epoch": (told(lambda each: each._replace(diverging=Diverging(8, 0))), "epoch=8"),
}


@pytest.mark.row("S8", part="followers check what a leader answers")
@pytest.mark.parametrize(("alter", "name"), WRONG.values(), ids=list(WRONG))
def test_an_answer_that_is_wrong_is_refused_named_counted_and_asked_again(cluster, caplog, alter, name):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    topic.append(b"b", acks="all")
    log = cluster.stores[2]["t"][0]
    cluster.transport.alter = alter
    topic.append(b"c", acks=1)
    wait_for(lambda: cluster.metrics(2).refused_answers >= 3)
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)
    assert name in caplog.text
    cluster.transport.alter = lambda request, answer: answer
    wait_for(lambda: log.log_end_offset == 3)
    topic.append(b"d", acks="all")
    wait_for(lambda: cluster.values(2) == [b"a", b"b", b"c", b"d"])
    assert cluster.metrics(2).lost_records == 0


#: What ends a thread of Python without a word, or passes every `except Exception`.
NO_EXCEPTIONS = [
    asyncio.CancelledError("a cancelled future"),
    SystemExit("an embedder's exit"),
    KeyboardInterrupt("in a callback"),
    GeneratorExit("a closed generator"),
]


def test_of_an_answer_whose_last_batch_is_wrong_the_good_ones_stay(cluster, caplog):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    log = cluster.stores[2]["t"][0]
    runs = []

    def last_flipped(run: bytes) -> bytes:
        runs.append(run)
        return run[:-1] + bytes([run[-1] ^ 1])

    cluster.transport.alter = lambda request, answer: b""
    for value in (b"b", b"c", b"d"):
        topic.append(value, acks=1)
    cluster.transport.alter = stored(last_flipped)
    wait_for(lambda: runs and cluster.metrics(2).refused_answers >= 3)
    wait_for(lambda: "CorruptRecordError" in caplog.text)
    # Three batches came: the two good ones before the wrong one are kept.
    assert log.log_end_offset == 3
    leaders = cluster.stores[1]["t"][0]
    cluster.transport.alter = lambda request, answer: answer
    wait_for(lambda: log.log_end_offset == leaders.log_end_offset == 4)
    topic.append(b"e", acks="all")
    wait_for(lambda: cluster.values(2) == [b"a", b"b", b"c", b"d", b"e"])
    assert (cluster.metrics(1).leader_epoch, cluster.metrics(2).lost_records) == (1, 0)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("an embedder's"), OSError("no route"), TimeoutError(), *NO_EXCEPTIONS]
)
def test_errors_of_a_transport_end_no_node(cluster, caplog, error):
    def fails(request: bytes, answer: bytes) -> bytes:
        raise error

    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    cluster.transport.alter = fails
    topic.append(b"a", acks=1)
    wait_for(lambda: type(error).__name__ in caplog.text)
    cluster.transport.alter = lambda request, answer: answer
    topic.append(b"b", acks="all")
    wait_for(lambda: cluster.values(2) == [b"a", b"b"])
    # What has not come was not refused.
    assert cluster.metrics(2).refused_answers == 0


# -- registries


class Moody(Registry):
    """A session of the registry that fails as a test says."""

    def __init__(self, mood: Mood) -> None:
        self._mood = mood
        self._inner: LocalRegistry = mood.registry.connect()

    def _call(self) -> None:
        self._mood.calls += 1
        self._mood.may_go.wait(self._mood.delay_s)
        if self._mood.error is not None:
            raise self._mood.error

    def read(self, path: str) -> Fact | None:
        self._call()
        if path in self._mood.failing:
            raise self._mood.failing[path]
        return self._inner.read(path)

    def children(self, path: str) -> frozenset[str]:
        self._call()
        return self._inner.children(path)

    def commit(self, changes: Sequence[Change]) -> list[Fact | None]:
        self._call()
        found = self._inner.commit(changes)
        if self._mood.lost_answers:
            self._mood.lost_answers -= 1
            raise RegistryUnreachableError("the answer to a commit was lost")
        return found

    def watch(self, path: str, notify: Callable[[], object]) -> RegistryWatch:
        self._call()
        return self._inner.watch(path, (lambda: None) if self._mood.forgets else notify)

    @property
    def is_alive(self) -> bool:
        self._mood.check_session()
        return self._inner.is_alive

    def close(self) -> None:
        self._inner.close()
        self._mood.check_session()


class Mood:
    """How the sessions of one node fail."""

    def __init__(self, registry: LocalRegistry) -> None:
        self.registry = registry
        self.error: BaseException | None = None
        self.failing: dict[str, BaseException] = {}  # path -> what its read raises
        self.session_error: BaseException | None = None  # what connecting, closing and `is_alive` raise
        self.forgets = False
        self.lost_answers = 0
        self.calls = 0
        self.delay_s: float | None = None  #: how long a call takes while it may not go; None: for ever
        self.may_go = threading.Event()
        self.may_go.set()

    def connect(self) -> Moody:
        self.check_session()
        return Moody(self)

    def check_session(self) -> None:
        if self.session_error is not None:
            raise self.session_error


@pytest.fixture
def moods(cluster):
    found = {number: Mood(cluster.registry) for number in (1, 2)}
    cluster.connects.update({number: mood.connect for number, mood in found.items()})
    yield found
    for mood in found.values():
        mood.error = mood.session_error = None
        mood.failing.clear()
        mood.may_go.set()


@pytest.mark.row("Z5", part="nodes of one process")
@pytest.mark.parametrize(
    "error",
    [
        RegistryUnreachableError("silence"),
        RuntimeError("an embedder's"),
        AssertionError("too"),
        *NO_EXCEPTIONS,
    ],
)
def test_a_node_goes_on_with_what_it_knows_while_the_registry_fails(cluster, moods, caplog, error):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    for mood in moods.values():
        mood.error = error
        cluster.nodes[1]._registry_loop.notify("/brokers/ids")
        cluster.nodes[2]._registry_loop.notify("/brokers/ids")
    wait_for(lambda: f"registry: {type(error).__name__}: {error}" in caplog.text)
    for number in range(5):
        topic.append(b"%d" % number, acks="all")
    for mood in moods.values():
        mood.error = None
    wait_for(lambda: len(cluster.values(2)) == 5)
    # The threads live: what is stored now is read.
    cluster.nodes[1].create_topic("u", replicas=[2, 1])
    assert cluster.nodes[2].wait_for_topic("u").append(b"a", acks="all").offset == 0
    cluster.stop(1)
    wait_for(lambda: cluster.nodes[2].leader_of("t") == 2)


def test_sessions_of_an_embedder_may_raise_anything(cluster, moods, caplog):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    for number, mood in moods.items():
        mood.session_error = RuntimeError(f"an embedder's {number}")
        cluster.nodes[number]._registry_loop.notify("/brokers/ids")
    wait_for(lambda: all(f"node {n}, registry: RuntimeError: an embedder's {n}" in caplog.text for n in moods))
    topic.append(b"a", acks="all")
    for mood in moods.values():
        mood.session_error = None
    cluster.nodes[1].create_topic("u", replicas=[2, 1])
    moods[1].session_error = RuntimeError("at its end")
    cluster.stop(1)
    wait_for(lambda: cluster.nodes[2].leader_of("t") == 2)


def test_a_malformed_fact_of_the_node_itself_is_named_until_it_is_gone(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2).append(b"a", acks="all")
    path = "/brokers/ids/2"
    cluster.registry.commit([Write(path, b"none", cluster.registry.read(path).version)])
    own = cluster.nodes[2]._registry_loop._registry
    fact = cluster.registry.read(path)
    # Its session takes it along. That of another stays.
    own.close()
    wait_for(lambda: cluster.registry.read(path) not in (None, fact))
    cluster.stop(2)
    cluster.registry.commit([Create(path, b"none")])
    with pytest.raises(MalformedFactError, match=rf"{path}: found b'none'"):
        cluster.start(2)
    cluster.registry.commit([Delete(path, cluster.registry.read(path).version)])
    cluster.stores.pop(2).close()
    cluster.start(2)
    wait_for(lambda: cluster.in_sync(1, 2))


def test_a_registry_that_fails_at_once_is_asked_at_intervals(cluster, moods):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    clock = cluster.nodes[1]._registry_loop._clock
    moods[1].error = RegistryUnreachableError("silence")
    cluster.nodes[1]._registry_loop.notify("/brokers/ids")
    calls = moods[1].calls
    wait_for(lambda: moods[1].calls > calls)
    began_s, calls = clock.monotonic_s(), moods[1].calls
    topic.append(b"a", acks="all")
    wait_for(lambda: moods[1].calls >= calls + 3)
    assert clock.monotonic_s() - began_s > 2 * TICK_S


@pytest.mark.parametrize("error", NO_EXCEPTIONS)
def test_a_registry_that_fails_for_one_topic_leaves_the_others_alone(cluster, moods, caplog, error):
    cluster.start(1, 2)
    moods[2].failing["/config/topics/t"] = error
    made = cluster.nodes[1].create_topic("t", replicas=[1, 2])
    cluster.nodes[1].create_topic("u", replicas=[2, 1])
    cluster.nodes[2].wait_for_topic("u")
    assert f"/brokers/topics/t: {type(error).__name__}: {error}" in caplog.text
    moods[2].failing.clear()
    cluster.nodes[2]._registry_loop.notify("/brokers/topics")
    cluster.nodes[2].wait_for_topic("t")
    made.append(b"a", acks="all")


@pytest.mark.parametrize("error", [RuntimeError("an embedder's"), NO_EXCEPTIONS[1]])
def test_a_node_that_fails_to_begin_leaves_nothing_running(cluster, moods, error):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    cluster.nodes[2].close()
    store, connect = cluster.stores[2], cluster.connects[2]
    begun = []

    class FailsLate(Moody):
        """Fails once a thread copies."""

        def children(self, path: str) -> frozenset[str]:
            if any(thread.name == "logstore-fetch-2-from-1" for thread in threading.enumerate()):
                begun.append(path)
                raise error
            return super().children(path)

    inner = RegistryLoop._note_replicas

    def noted(loop):
        inner(loop)
        loop._registry.children("/brokers/topics")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RegistryLoop, "_note_replicas", noted)
        with pytest.raises(type(error), match="an embedder's"):
            Node(store, 2, lambda: FailsLate(moods[2]), cluster.transport, **cluster.options)
    assert begun
    assert not [each.name for each in threading.enumerate() if each.name.startswith("logstore-fetch-2")]
    # Neither registered nor named in the store, which another node can have.
    wait_for(lambda: cluster.registry.read("/brokers/ids/2") is None)
    assert store._host.replicas is None
    cluster.nodes[2] = Node(store, 2, connect, cluster.transport, **cluster.options)
    wait_for(lambda: cluster.in_sync(1, 2))
    topic.append(b"a", acks="all")


def test_a_node_whose_registry_takes_seconds_serves_on_and_changes_nothing_wrong(cluster, moods):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    before = cluster.registry.read(STATE)
    for mood in moods.values():
        mood.delay_s = 2.0
        mood.may_go.clear()  # each call waits for as long, as no test sets it
        calls = mood.calls
        cluster.nodes[1]._registry_loop.notify("/brokers/ids")
        cluster.nodes[2]._registry_loop.notify("/brokers/ids")
        wait_for(lambda mood=mood, calls=calls: mood.calls > calls)
    # It goes on with what it knows, and no replica is taken for a lagging one.
    for number in range(50):
        topic.append(b"%d" % number, acks="all")
    wait_for(lambda: len(cluster.values(2)) == 50)
    called = sum(mood.calls for mood in moods.values())
    wait_for(lambda: sum(mood.calls for mood in moods.values()) > called, 20)  # it does return
    assert cluster.registry.read(STATE) == before
    for mood in moods.values():
        mood.delay_s = None
        mood.may_go.set()
    # What was asked for meanwhile is done.
    cluster.stop(1)
    wait_for(lambda: cluster.nodes[2].leader_of("t") == 2, 30)
    assert len(cluster.values(2)) == 50


def test_a_registry_that_does_not_return_stops_nothing_but_its_thread(tmp_path, cluster, moods):
    cluster.options["timeout_s"] = 0.2
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    moods[1].may_go.clear()
    calls = moods[1].calls
    cluster.nodes[1]._registry_loop.notify("/brokers/ids")
    wait_for(lambda: moods[1].calls > calls)
    topic.append(b"a", acks="all")
    cluster.stop(1)  # returns
    wait_for(lambda: cluster.nodes[2].leader_of("t") == 2)
    assert cluster.values(2) == [b"a"]


def test_commits_whose_answers_are_lost_are_recognized(cluster, moods):
    moods[1].lost_answers = moods[2].lost_answers = 2
    cluster.start(1, 2)
    moods[1].lost_answers = 0
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    epoch = cluster.metrics(1).leader_epoch
    for mood in moods.values():
        mood.lost_answers = 3
    # The ISR shrinks and grows by commits of the leader, then leadership moves.
    cluster.transport.cut.add(1)
    wait_for(lambda: cluster.in_sync(1))
    cluster.transport.cut.clear()
    wait_for(lambda: cluster.in_sync(1, 2))
    assert (moods[1].lost_answers < 3, cluster.metrics(1).leader_epoch) == (True, epoch)
    moods[1].lost_answers = 0
    cluster.stop(1)
    wait_for(lambda: cluster.nodes[2].leader_of("t") == 2)
    assert cluster.metrics(2).leader_epoch == epoch + 1
    assert cluster.values(2) == [b"a"]


def test_watches_that_are_forgotten_delay_and_change_nothing_else(cluster, moods, monkeypatch):
    monkeypatch.setattr("logstore.replication.node.registry_loop.READ_ALL_S", 0.2)
    moods[1].forgets = moods[2].forgets = True
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    cluster.stop(1)
    wait_for(lambda: cluster.nodes[2].leader_of("t") == 2)
    cluster.start(1)
    wait_for(lambda: cluster.in_sync(1, 2))
    wait_for(lambda: cluster.append(1, b"b"))
    wait_for(lambda: cluster.values(1) == [b"a", b"b"])


def watches(cluster, path: str) -> int:
    """How many watches the registry has on a path, of all its sessions."""
    return len(cluster.registry._tree.watches.get(path, {}))


def test_a_session_that_takes_the_place_of_another_one_watches_what_that_one_did(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2)
    tree = cluster.registry._tree
    before = {path: len(found) for path, found in tree.watches.items()}
    assert before[STATE] == 2
    cluster.nodes[2]._registry_loop._registry.close()
    wait_for(lambda: {path: len(found) for path, found in tree.watches.items()} == before)
    wait_for(lambda: cluster.in_sync(1, 2))


def test_a_topic_that_is_deleted_is_watched_no_more(cluster):
    cluster.start(1, 2)
    cluster.create(1, 2)
    cluster.nodes[1].delete_topic("t")
    paths = [TOPIC, STATE, request_path("t")]
    wait_for(lambda: not any(watches(cluster, path) for path in paths))
    assert watches(cluster, "/brokers/topics") == 2


def fewer(value: bytes) -> bytes:
    return value.replace(b',"1":[2,1]', b"")


def another(value: bytes) -> bytes:
    at = value.index(b'"topic_id":"') + len(b'"topic_id":"')
    return value[:at] + new_id().encode() + value[at + 22 :]


FOREIGN = {
    "a node that is none": Create("/brokers/ids/first", b"{}", ephemeral=True),
    "a topic that is none": Create("/brokers/topics/u", b"\xff\xfe"),
    "a topic of another version": Create("/brokers/topics/u", b'{"version": 1, "partitions": {"0": [1]}}'),
    "a topic of a name that no topic has": Create(
        "/brokers/topics/a b", b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":{"0":[1,2]}}'
    ),
    "settings that are none": (
        Create("/brokers/topics/u", b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":{"0":[1,2]}}'),
        Create("/config/topics/u", b"[1]"),
    ),
    "settings that are unknown": (
        Create("/brokers/topics/u", b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":{"0":[1,2]}}'),
        Create("/config/topics/u", b'{"version": 1, "config": {"colour": "red"}}'),
    ),
    "a setting that is out of range": (
        Create("/brokers/topics/u", b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":{"0":[1,2]}}'),
        Create("/config/topics/u", b'{"version": 1, "config": {"retention.ms": "soon"}}'),
    ),
}


@pytest.mark.parametrize("changes", FOREIGN.values(), ids=list(FOREIGN))
def test_facts_that_are_not_ours_are_named_and_leave_the_rest_alone(cluster, caplog, changes):
    listed = changes if type(changes) is tuple else (changes,)
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    cluster.registry.commit(listed)
    named = listed[0].path
    wait_for(lambda: all(f"node {node}, {named}: " in caplog.text for node in (1, 2)))
    assert listed[-1].path in caplog.text  # of the fact that is wrong
    topic.append(b"a", acks="all")
    assert all(cluster.registry.read(each.path).value == each.value for each in listed)
    # The other partitions are still looked after.
    cluster.stop(1)
    wait_for(lambda: cluster.nodes[2].leader_of("t") == 2)


@pytest.mark.parametrize("change", [fewer, another, lambda value: b"{}"])
def test_a_topic_that_is_changed_to_another_one_stays_what_it_was(cluster, caplog, change):
    cluster.start(1, 2)
    topic = cluster.nodes[1].create_topic("t", 2, replicas=[1, 2])
    cluster.nodes[1].create_topic("z", replicas=[1, 2])
    good = cluster.registry.read(TOPIC)
    wrong = change(good.value)
    assert wrong != good.value
    cluster.registry.commit([Write(TOPIC, wrong, good.version)])
    wait_for(lambda: all(f"node {node}, {TOPIC}: MalformedFactError: {TOPIC}: " in caplog.text for node in (1, 2)))
    topic.append(b"a", partition=0, acks="all")
    assert cluster.registry.read(TOPIC).value == wrong
    cluster.stop(1)
    wait_for(lambda: {cluster.nodes[2].leader_of(name) for name in ("t", "z")} == {2})


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_registration_of_another_is_named(cluster, caplog, is_deleted):
    cluster.start(1, 2)
    cluster.create(1, 2).append(b"a", acks="all")
    path = "/brokers/lives/1"
    good = cluster.registry.read(path)
    change = Delete(path, good.version) if is_deleted else Write(path, b"another", good.version)
    cluster.registry.commit([change])
    what = "is gone" if is_deleted else f"has version {good.version + 1}"
    wait_for(lambda: f"node 1, {path}: {what}, and this process has registered version" in caplog.text)
    cluster.stop(1)
    cluster.start(1)
    wait_for(lambda: cluster.in_sync(1, 2))


def test_a_state_that_is_gone_is_named_and_changes_nothing(cluster, caplog):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    good = cluster.registry.read(STATE)
    cluster.registry.commit([Delete(STATE, good.version)])
    wait_for(lambda: all(f"node {node}, {STATE}: is gone" in caplog.text for node in (1, 2)))
    topic.append(b"b", acks="all")


def test_a_state_of_yesterday_changes_nothing_and_is_named(cluster, caplog):
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    good = cluster.registry.read(STATE)
    yesterday = b'{"version":1,"leader":-1,"leader_epoch":0,"isr":[1,2],"controller_epoch":0}'
    cluster.registry.commit([Delete(STATE, good.version), Create(STATE, yesterday)])
    wait_for(lambda: all(f"node {node}, t-0: MalformedFactError: {STATE}: " in caplog.text for node in (1, 2)))
    topic.append(b"b", acks="all")
    # No election and no ISR is founded on it.
    cluster.stop(2)
    found = cluster.registry.read(STATE)
    assert (found.value, found.version) == (yesterday, 0)
    assert cluster.metrics(1).leader_epoch == 1


# -- clocks


class Jumping(SystemClock):
    """The machine's clock, until a test sets the wall clock, or lets the machine sleep."""

    def __init__(self) -> None:
        self.wall_ms = 0
        self.slept_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + self.wall_ms

    def monotonic_s(self) -> float:
        return time.monotonic() + self.slept_s


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
def test_a_wall_clock_that_jumps_changes_no_decision(cluster, jump_ms):
    clocks = {number: Jumping() for number in (1, 2)}
    cluster.clocks.update(clocks)
    cluster.start(1, 2)
    topic = cluster.create(1, 2, minimum=2)
    before = cluster.registry.read(STATE)
    topic.append(b"a", acks="all")
    for number, clock in clocks.items():
        clock.wall_ms = jump_ms
        topic.append(b"%d" % number, acks="all")
    wait_for(lambda: cluster.values(2) == [b"a", b"1", b"2"])
    assert cluster.registry.read(STATE) == before
    stamps = [record.timestamp_ms for record in cluster.stores[2]["t"][0]]
    assert abs(stamps[1] - stamps[0] - jump_ms) < HOUR_MS / 2


@pytest.mark.parametrize("sleeper", [1, 2])
def test_a_machine_that_slept_an_hour_goes_on(cluster, sleeper):
    clock = cluster.clocks[sleeper] = Jumping()
    cluster.start(1, 2)
    topic = cluster.create(1, 2)
    topic.append(b"a", acks="all")
    clock.slept_s = HOUR_MS / 1000
    # The follower may leave the ISR, and is back; leader and epoch stay.
    wait_for(lambda: cluster.append(1, b"b"))
    wait_for(lambda: cluster.in_sync(1, 2))
    wait_for(lambda: cluster.values(2) == [b"a", b"b"])
    assert (cluster.metrics(1).leader_epoch, cluster.metrics(2).lost_records) == (1, 0)
