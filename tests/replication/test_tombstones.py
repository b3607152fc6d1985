"""A key that was deleted stays deleted on every replica of a compacted topic, also if that was away for long.

Three replicas on logs in simulated disks, and compactions of each whenever the test says so. The table of keys and
values is known from what was appended; in the end each replica must have it, and no transaction may hang.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from logstore.batch._encode import encode
from logstore.config.log import LogConfig
from logstore.log import FOLLOWS, Log, Marker, ProducerStamp
from logstore.log.transactions import EXPIRY_PERIOD_MS
from logstore.replication import Acks, FetchAnswer, FetchFrom, InSyncReplica
from logstore.replication.api import PartitionState
from logstore.replication.election import created
from logstore.replication.log_copy import LogCopy
from logstore.testing import ManualClock, SimDisk
from logstore.testing.conformance.copies import received
from tests.crash.planted import must_break

pytestmark = pytest.mark.row("D3", part="compacted topics")

NODES = (1, 2, 3)
STAY_MS = 1_000  #: delete.retention.ms
CONFIG = LogConfig(
    cleanup_policy="compact",
    segment_bytes=300,
    index_interval_bytes=120,
    delete_retention_ms=STAY_MS,
    producer_id_expiration_ms=STAY_MS,
    min_cleanable_dirty_ratio=0.01,
)
#: Fetches after which a copy that still begins again never ends.
PATIENCE = 400


class Replicas:
    """Three copies of a compacted partition. Nothing happens between two calls."""

    def __init__(self, kind: type[InSyncReplica] = InSyncReplica, fetch_bytes: int = 1) -> None:
        self._kind, self._fetch_bytes = kind, fetch_bytes
        self.clock = ManualClock()
        self.state = created(NODES)._replace(version=0)
        self.lives = dict.fromkeys(NODES, 0)
        self.logs: dict[int, Log] = {}
        self.replicas: dict[int, InSyncReplica] = {}
        self.begun_again = dict.fromkeys(NODES, 0)
        self.table: dict[bytes, bytes] = {}
        self._now_ms = 0
        for node in NODES:
            self.start(node, SimDisk(node))

    def now_ms(self) -> int:
        """Return a later time at each call: a follower that is not in sync holds up nothing."""
        self._now_ms += 1
        return self._now_ms

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        for log in self.logs.values():
            log.close()

    def start(self, node: int, disk: SimDisk) -> None:
        self.lives[node] += 1
        log = Log.open("/data/t-0", CONFIG, files=disk, clock=self.clock, policy=FOLLOWS)
        self.logs[node] = log
        self.replicas[node] = self._kind(log, node, self.lives[node], lag_max_ms=0, fetch_bytes=self._fetch_bytes)
        self.disks = {**getattr(self, "disks", {}), node: disk}

    def restart(self, node: int, *, power: bool = False) -> None:
        """Kill a follower's process, or cut its power, and begin another."""
        old, disk = self.logs[node], self.disks[node]
        after = disk.crash("none") if power else disk.kill()
        old.close()
        self.start(node, after)
        self.replicas[node].apply(self.state, self.now_ms())

    def lead(self, node: int) -> None:
        """Begin an epoch, which everybody learns of. Only the leader is in sync: the high watermark is its end."""
        before = self.state
        self.state = PartitionState(
            NODES, (node,), node, before.leader_epoch + 1, last_leader=node, version=before.version + 1
        )
        for each in NODES:
            self.replicas[each].apply(self.state, self.now_ms())

    def put(self, key: bytes, value: bytes | None) -> None:
        batch = encode([(key, value)], timestamp_ms=self.clock.now_ms())
        self.replicas[self.state.leader].append(batch, acks=Acks.LEADER, now_ms=self.now_ms())
        if value is None:
            self.table.pop(key, None)
        else:
            self.table[key] = value

    def fetch(self, node: int) -> bool:
        """Let a follower ask and take the answer; return whether it has changed."""
        question = self.replicas[node].ask(self.now_ms())
        if question is None:
            return False
        leader, wants = question
        answer: FetchAnswer = received(self.replicas[leader].answer(wants, self.now_ms()))
        end = self.logs[node].log_end_offset
        moved = self.replicas[node].take(wants, answer, self.now_ms())
        self.begun_again[node] += self.logs[node].log_end_offset < end
        return moved

    def catch_up(self, *nodes: int) -> None:
        for node in nodes:
            for _ in range(PATIENCE):
                if not self.fetch(node) and self.end(node) == self.end(self.state.leader):
                    break
            else:
                raise AssertionError(f"node {node} does not catch up with its leader")

    def end(self, node: int) -> int:
        return self.logs[node].log_end_offset

    def compact(self, *nodes: int) -> None:
        for node in nodes:
            self.logs[node].maintenance.roll()
            self.logs[node].maintenance.compact()

    def drop(self, *nodes: int) -> None:
        """Compact until every tombstone is gone."""
        self.compact(*nodes)
        self.clock.advance(STAY_MS)
        self.compact(*nodes)

    def dropped(self, node: int) -> int:
        return self.logs[node].replica.dropped_end

    def held(self, node: int) -> dict[bytes, bytes]:
        """Return the table of keys and values that a replica's records make."""
        found: dict[bytes, Any] = {}
        for record in self.logs[node].scan(isolation="read_committed"):
            found[bytes(record.key)] = record.value
        return {key: bytes(value) for key, value in found.items() if value is not None}

    def check(self) -> None:
        for node in NODES:
            log = self.logs[node]
            assert self.held(node) == self.table, f"node {node} has other keys"
            assert log.last_stable_offset == log.high_watermark, f"a transaction hangs on node {node}"


def deleted_while_3_is_away(replicas: Replicas) -> None:
    replicas.lead(1)
    replicas.put(b"a", b"1")
    replicas.put(b"k", b"2")
    replicas.catch_up(2, 3)
    replicas.put(b"k", None)
    replicas.put(b"b", b"3")
    replicas.catch_up(2)
    replicas.drop(1)


def test_a_follower_that_was_away_while_a_tombstone_went_begins_again():
    with Replicas() as replicas:
        deleted_while_3_is_away(replicas)
        assert replicas.end(3) == 2
        assert replicas.dropped(1) >= 3
        replicas.catch_up(3)
        assert replicas.begun_again[3] == 1
        replicas.check()
        # The others have lost nothing, so they go on.
        replicas.catch_up(2)
        assert replicas.begun_again[2] == 0


def test_a_follower_that_has_the_tombstone_goes_on():
    with Replicas() as replicas:
        replicas.lead(1)
        replicas.put(b"k", b"2")
        replicas.put(b"k", None)
        replicas.catch_up(2, 3)
        replicas.put(b"b", b"3")
        replicas.drop(1)
        replicas.catch_up(2, 3)
        assert not any(replicas.begun_again.values())
        replicas.check()


def test_a_copy_that_is_lagging_goes_on_while_the_leader_drops_what_it_had_cleaned():
    """It ends below what the leader has dropped, before it and after; it never had what the tombstones delete."""
    with Replicas() as replicas:
        replicas.lead(1)
        for n in range(8):
            replicas.put(b"k%d" % n, b"1")
        for n in range(6):
            replicas.put(b"k%d" % n, None)
        replicas.put(b"z", b"1")
        replicas.compact(1)
        assert replicas.dropped(1) == 0
        for _ in range(3):
            replicas.fetch(3)
        end = replicas.end(3)
        assert 0 < end < 14
        replicas.clock.advance(STAY_MS)
        replicas.compact(1)
        assert replicas.dropped(1) >= 14 > end
        replicas.catch_up(2, 3)
        assert not any(replicas.begun_again.values())
        replicas.check()
        assert replicas.dropped(3) >= 14


def a_copy_that_is_too_old(replicas: Replicas) -> None:
    replicas.lead(1)
    for n in range(8):
        replicas.put(b"k%d" % n, b"1")
    for _ in range(3):
        replicas.fetch(3)
    for n in range(6):
        replicas.put(b"k%d" % n, None)
    replicas.put(b"z", b"1")
    replicas.drop(1)
    replicas.catch_up(2, 3)


def test_a_copy_that_takes_longer_than_tombstones_stay_begins_again_and_ends():
    with Replicas() as replicas:
        a_copy_that_is_too_old(replicas)
        assert replicas.begun_again == {1: 0, 2: 0, 3: 1}
        replicas.check()


@pytest.mark.parametrize("power", [False, True])
def test_a_follower_that_dies_in_a_copy_begins_again_at_most_once_more(power):
    with Replicas() as replicas:
        deleted_while_3_is_away(replicas)
        replicas.fetch(3)  # begins again
        replicas.fetch(3)
        assert 0 < replicas.end(3) < replicas.dropped(1)
        replicas.restart(3, power=power)
        replicas.catch_up(3)
        assert replicas.begun_again[3] <= 2
        replicas.check()


def another_leader_in_a_copy(replicas: Replicas) -> None:
    """3 copies from 1, which is clean; then from 2, which still has the key and its tombstone; then from 1."""
    replicas.lead(1)
    replicas.put(b"a", b"1")
    replicas.put(b"k", b"2")
    replicas.put(b"k", None)
    replicas.put(b"b", b"3")
    replicas.catch_up(2)
    replicas.drop(1)
    replicas.fetch(3)
    assert replicas.end(3) == 1
    assert replicas.dropped(3) >= 3
    replicas.lead(2)
    replicas.fetch(3)
    assert b"k" in replicas.held(3)
    assert replicas.end(3) == 2
    replicas.lead(1)
    replicas.catch_up(2, 3)


def test_a_copy_from_a_leader_that_is_less_clean_is_not_trusted_by_the_next():
    with Replicas() as replicas:
        another_leader_in_a_copy(replicas)
        replicas.check()
        assert replicas.begun_again[3] == 1


def a_copy_that_leads(replicas: Replicas) -> None:
    """3 copies from 1 what lacks the tombstone, and leads; 2 still has the key."""
    replicas.lead(1)
    replicas.put(b"a", b"1")
    replicas.put(b"k", b"2")
    replicas.catch_up(2)
    replicas.put(b"k", None)
    replicas.put(b"b", b"3")
    replicas.drop(1)
    replicas.catch_up(3)
    replicas.lead(3)
    replicas.catch_up(1, 2)


def test_a_follower_that_becomes_leader_lacks_what_its_leader_lacked_and_says_so():
    with Replicas() as replicas:
        a_copy_that_leads(replicas)
        replicas.check()
        assert replicas.begun_again == {1: 0, 2: 1, 3: 0}


def markers_go_while_3_copies(replicas: Replicas) -> None:
    """3 has the record of a committed transaction, and its leader deletes the record and the marker behind it."""
    replicas.lead(1)
    stamp = ProducerStamp(7, 0, 0, True)
    replicas.put(b"a", b"0")
    replicas.logs[1].append([(b"k", b"1")], producer=stamp)
    replicas.logs[1].replica.append_control(Marker.COMMIT, producer_id=7, producer_epoch=0)
    replicas.put(b"z", b"1")
    replicas.compact(1)
    while replicas.end(3) < 2:
        replicas.fetch(3)
    assert replicas.end(3) == 2
    # The batch with a producer's last sequence stays until the producer is forgotten.
    replicas.clock.advance(CONFIG.producer_id_expiration_ms + EXPIRY_PERIOD_MS)
    replicas.logs[1].maintenance.retain()
    replicas.put(b"k", b"2")
    replicas.put(b"z", b"2")
    replicas.compact(1)  # the record goes
    replicas.drop(1)  # and the marker
    assert replicas.dropped(1) > 2
    replicas.catch_up(2, 3)


def test_a_copy_with_a_record_whose_marker_went_begins_again():
    with Replicas() as replicas:
        markers_go_while_3_copies(replicas)
        assert replicas.begun_again[3] == 1
        replicas.check()


# --- a cut of what was compacted ----------------------------------------------------------------


def cut_below_its_own_compaction(replicas: Replicas) -> None:
    """2 has compacted a record away, and the newer one of its key is lost in an unclean election."""
    replicas.lead(1)
    replicas.put(b"k", b"1")
    replicas.put(b"a", b"1")
    replicas.catch_up(2, 3)
    kept = dict(replicas.table)
    replicas.put(b"k", b"2")
    replicas.put(b"b", b"2")
    replicas.catch_up(2)
    replicas.compact(2)
    replicas.lead(3)
    replicas.table = kept


def cut_below_what_its_leader_had_compacted(replicas: Replicas) -> None:
    """2 has compacted nothing: it copied from a leader that had."""
    replicas.lead(1)
    replicas.put(b"z", b"1")
    replicas.catch_up(2, 3)
    replicas.put(b"k", b"1")
    replicas.put(b"a", b"1")
    replicas.catch_up(3)
    kept = dict(replicas.table)
    replicas.put(b"k", b"2")
    replicas.put(b"b", b"2")
    replicas.compact(1)
    replicas.catch_up(2)
    assert replicas.logs[2].replica.clean_end == 0
    replicas.lead(3)
    replicas.table = kept


@pytest.mark.parametrize("play", [cut_below_its_own_compaction, cut_below_what_its_leader_had_compacted])
def test_a_follower_that_is_cut_below_what_was_compacted_begins_again(play):
    with Replicas() as replicas:
        play(replicas)
        end = replicas.end(3)
        replicas.catch_up(1, 2)
        replicas.check()
        assert replicas.begun_again[2] == 1
        # What consumers had seen is reported.
        assert [(lost.start_offset, lost.end_offset) for lost in replicas.replicas[2].lost] == [(end, end + 2)]


def test_a_follower_that_is_cut_above_what_was_compacted_goes_on():
    with Replicas() as replicas:
        replicas.lead(1)
        replicas.put(b"k", b"1")
        replicas.put(b"k", b"2")
        replicas.catch_up(2, 3)
        kept = dict(replicas.table)
        replicas.compact(1, 2)
        mark = replicas.logs[2].high_watermark
        replicas.put(b"k", b"3")
        assert replicas.fetch(2)
        # The high watermark that came with the record is the leader's own: as if it had not come.
        replicas.restart(2)
        assert replicas.logs[2].high_watermark <= mark < replicas.end(2)
        replicas.lead(3)
        replicas.table = kept
        replicas.fetch(2)
        assert replicas.end(2) == mark == 2
        replicas.catch_up(1, 2)
        replicas.check()


# --- lives ------------------------------------------------------------------------------------

COUNT = 80


def life(seed: int, kind: type[InSyncReplica] = InSyncReplica) -> tuple[int, int]:
    """Let three replicas live by chance; return how often one has begun again, and what was dropped."""
    rng = random.Random(seed)
    with Replicas(kind, fetch_bytes=rng.choice((1, 1, 200, 10_000))) as replicas:
        replicas.lead(1)
        keys = [b"k%d" % n for n in range(rng.choice((2, 5, 12)))]
        for step in range(rng.choice((60, 150))):
            chance, leader = rng.random(), replicas.state.leader
            followers = [node for node in NODES if node != leader]
            if chance < 0.35:
                replicas.put(rng.choice(keys), rng.choice((None, None, b"%d" % step)))
            elif chance < 0.40:
                key, value = rng.choice(keys), b"%d" % step
                log, ends = replicas.logs[leader], rng.choice((Marker.COMMIT, Marker.ABORT))
                # Each time a new epoch of the producer, which begins with sequence 0.
                producer_id = rng.choice((1, 2, step + 10))
                log.append([(key, value)], producer=ProducerStamp(producer_id, step, 0, True))
                log.replica.append_control(ends, producer_id=producer_id, producer_epoch=step)
                if ends is Marker.COMMIT:
                    replicas.table[key] = value
            elif chance < 0.75:
                for _ in range(rng.choice((1, 1, 2, 10))):
                    replicas.fetch(rng.choice(followers))
            elif chance < 0.87:
                replicas.compact(rng.choice((leader, leader, *followers)))
            elif chance < 0.93:
                replicas.clock.advance(rng.choice((STAY_MS // 2, STAY_MS)))
            elif chance < 0.97:
                replicas.restart(rng.choice(followers), power=rng.random() < 0.3)
            else:
                ready = [node for node in followers if replicas.end(node) == replicas.end(leader)]
                if ready:
                    node = rng.choice(ready)
                    replicas.catch_up(node)
                    replicas.lead(node)
        replicas.put(b"end", b"1")
        replicas.catch_up(*[node for node in NODES if node != replicas.state.leader])
        replicas.check()
        dropped = max(replicas.dropped(node) for node in NODES)
        return sum(replicas.begun_again.values()), dropped


def lives(kind: type[InSyncReplica] = InSyncReplica, count: int = COUNT) -> None:
    begun, dropping = 0, 0
    for seed in range(count):
        try:
            again, dropped = life(seed, kind)
        except AssertionError as error:
            raise AssertionError(f"life {seed}: {error}") from error
        begun, dropping = begun + again, dropping + (dropped > 0)
    assert begun > count // 8
    assert dropping > count // 2


def test_every_key_that_was_deleted_stays_so_in_lives_by_chance():
    lives()


# --- planted ------------------------------------------------------------------------------------


def planted(copy: type[LogCopy]) -> type[InSyncReplica]:
    return type("Planted", (InSyncReplica,), {"make_copy": copy})


class GoesOnAlways(LogCopy):
    def _is_too_old(self, answer: FetchAnswer) -> bool:
        return False


class TrustsEveryLeader(LogCopy):
    """A copy that was begun from one leader counts for the next."""

    def _is_too_old(self, answer: FetchAnswer) -> bool:
        self._copied_in = answer.leader_epoch
        return super()._is_too_old(answer)


class CutsWhatWasCompacted(LogCopy):
    def _lacks_what_was_replaced(self, to: int) -> bool:
        return False


class TrustsItsOwnCompaction(LogCopy):
    """Only what the log itself has compacted counts, not what its leader had."""

    def _lacks_what_was_replaced(self, to: int) -> bool:
        return to < self.calls.clean_end


class SaysNothingOfItsLeader(LogCopy):
    """A leader that was a follower does not say what its leader lacked."""

    def answer(self, wants: FetchFrom, epoch: int) -> tuple[FetchAnswer, int]:
        found, end = super().answer(wants, epoch)
        return (found._replace(dropped_end=0) if self._copied_in >= 0 else found), end


class BeginsAgainAlways(LogCopy):
    """Whatever ends below what the leader has dropped begins again, a copy that was begun since too."""

    def _is_too_old(self, answer: FetchAnswer) -> bool:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        return start < end < answer.dropped_end


@pytest.mark.parametrize(
    ("play", "copy", "broken"),
    [
        (deleted_while_3_is_away, GoesOnAlways, "node 3 has other keys"),
        (another_leader_in_a_copy, TrustsEveryLeader, "node 3 has other keys"),
        (a_copy_that_leads, SaysNothingOfItsLeader, "node 2 has other keys"),
        (deleted_while_3_is_away, BeginsAgainAlways, "does not catch up"),
        (cut_below_its_own_compaction, CutsWhatWasCompacted, "node 2 has other keys"),
        (cut_below_what_its_leader_had_compacted, TrustsItsOwnCompaction, "node 2 has other keys"),
        (markers_go_while_3_copies, GoesOnAlways, "node 3 has other keys"),
        (a_copy_that_is_too_old, GoesOnAlways, "node 3 has other keys"),
    ],
)
def test_a_planted_bug_is_found(play, copy, broken):
    def search() -> None:
        with Replicas(planted(copy)) as replicas:
            play(replicas)
            replicas.catch_up(*[node for node in NODES if node != replicas.state.leader])
            replicas.check()

    must_break(broken, search)


def test_lives_find_a_planted_bug():
    must_break("has other keys|a transaction hangs|does not catch up", lambda: lives(planted(GoesOnAlways), 500))
