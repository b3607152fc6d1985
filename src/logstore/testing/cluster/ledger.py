"""The ledger of a simulation: every append, every acknowledgement, every read, and the judge of the invariants.

It sees all nodes at once, as no node can. A broken invariant is an `InvariantError`, which names it.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from logstore.batch._batch import Batches
from logstore.log import Log
from logstore.log.formats.leader_epochs import EpochEntry
from logstore.replication.api import Acks, FetchAnswer, FetchRefusal, NodeId, PartitionState, Pending, Role
from logstore.replication.election import is_unclean
from logstore.testing.cluster.contents import ContentJudge
from logstore.testing.cluster.scene import Scene, SeenMember
from logstore.testing.cluster.steps import StepJudge


class InvariantError(AssertionError):
    """An invariant of replication does not hold; the message begins with its name."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class Acknowledged(NamedTuple):
    """One record that a leader has acknowledged."""

    offset: int
    epoch: int
    value: bytes
    acks: Acks
    at_ms: int


class Ledger:
    """What has happened to one partition in a simulation, and what must hold because of it."""

    def __init__(self, scene: Scene, partition: int) -> None:
        self._scene = scene
        self.partition = partition
        self._members = scene.members[partition]
        self.leaders: dict[int, NodeId] = {}  # epoch -> node
        self.appended: dict[tuple[int, int], bytes] = {}  # (epoch, offset) -> value
        self.acknowledged: list[Acknowledged] = []
        self.seen: dict[int, bytes] = {}  # offset -> value, by any consumer
        self.read_count = 0
        self.lost_acknowledged: list[Acknowledged] = []  #: of those with acks=1, and after unclean elections
        self.elections = 0
        self.lossy: set[NodeId] = set()  #: nodes whose disk has lost something, until they are in sync again
        self.may_have_lost = False  #: more copies were lost than the rules allow for, or an election was unclean
        self._ends: dict[NodeId, int] = {}  # the log end of each process that runs, or ran last
        self._newest: PartitionState | None = None
        self._expected: int | None = None  # the epoch of a leader that takes no part yet; it is judged when it does
        #: Judges what each step changes.
        self.steps = StepJudge(scene, partition, self.fail)
        #: Judges what the logs hold.
        self.contents = ContentJudge(self.fail, compares=not scene.compacts)
        #: Of a compacted topic: key -> offset and record of the newest one that was below a high watermark.
        self.table: dict[bytes, tuple[int, bytes]] = {}
        self._table_end = 0
        self.compactions = 0
        self.deletions = 0  #: how often the start of a log was moved by retention or by a client
        self.restarts = 0  #: of followers that ended below the start of their leader
        self.tombstone_drops = 0  #: compactions that have deleted tombstones

    # -- what happens

    def note_append(self, node: NodeId, pending: Pending, values: list[bytes]) -> None:
        """A leader has written a batch."""
        for offset, value in enumerate(values, pending.result.first_offset):
            key = (pending.epoch, offset)
            self._demand(key not in self.appended, "I2", f"{key} was written twice, the second time by node {node}")
            self.appended[key] = value

    def note_acknowledged(self, pending: Pending, values: list[bytes], acks: Acks, epoch: int) -> None:
        """A leader has acknowledged a batch; called when it does, not when the producer hears of it.

        ``epoch`` is the one that the replica is in.
        """
        self._demand(
            pending.epoch == epoch, "I4", f"an append of epoch {pending.epoch} is acknowledged in epoch {epoch}"
        )
        now_ms, first = self._scene.world.now_ms, pending.result.first_offset
        records = [Acknowledged(at, pending.epoch, value, acks, now_ms) for at, value in enumerate(values, first)]
        self.acknowledged += records
        if acks is not Acks.ALL:
            return
        state = self._newest
        if state is None or state.leader not in self._members or self.may_have_lost:
            return
        leader = self._members[state.leader]
        if leader.log is not None and state.leader not in self.lossy:
            self._demand_records(leader, {each.offset: each.value for each in records}, "I3", "was acknowledged")

    def note_read(self, offset: int, value: bytes) -> None:
        self.read_count += 1
        before = self.seen.setdefault(offset, value)
        self._demand(
            before == value or self.may_have_lost, "M4", f"offset {offset} was {before!r} and is {value!r}"
        )
        self.seen[offset] = value

    def note_answer(self, node: NodeId, start: int, end: int, offsets: list[int]) -> None:
        """A consumer has asked a log for what is there from an offset on, which it has up to ``end``."""
        if start >= end or self._scene.compacts:
            return
        self._demand(
            offsets == [*range(start, start + len(offsets))] and bool(offsets),
            "I12",
            f"node {node} has offsets {start} to {end}, and a consumer gets {offsets}",
        )

    def note_loss(self, node: NodeId) -> None:
        """A disk has lost what was not synced, or all."""
        self.lossy.add(node)
        if len(self.lossy) > self._scene.tolerance.lost_copies:
            self.may_have_lost = True

    def note_state(self, before: PartitionState, after: PartitionState, by: NodeId) -> None:
        """The registry has stored a state, by the commit of a node."""
        self.steps.note_state(before, after)
        self._newest = after
        self._scene.world.note("state", self.partition, by, after.leader, after.leader_epoch, after.isr)
        # A join from before the loss, which the registry stores now, is that of a process that is gone.
        joined = set(after.isr) - set(before.isr)
        self.lossy -= {node for node in joined if self._members[node].replica is not None}
        if after.leader_epoch == before.leader_epoch or after.leader not in self._members:
            return
        self.elections += 1
        if self._scene.allows_unclean and is_unclean(before, after):
            self.may_have_lost = True
        leader = self._members[after.leader]
        if leader.replica is None and by != after.leader:
            # Named by another node before it takes part: if its log has lost records, it takes its name out first.
            self._expected = after.leader_epoch
        else:
            self._judge_leader(leader)

    def _judge_leader(self, leader: SeenMember) -> None:
        """Demand that the leader of a new epoch has all that was promised."""
        self._expected = None
        if leader.log is None or self.may_have_lost:
            return
        why = f"node {leader.node} is elected"
        self._demand_table(leader, why)
        self._demand_records(leader, self._promised(), "I3", f"was acknowledged, and {why}")
        self._demand_records(leader, self.seen, "I5", f"was read, and {why}")

    def _promised(self) -> dict[int, bytes]:
        return {record.offset: record.value for record in self.acknowledged if record.acks is Acks.ALL}

    # -- what must hold at each step

    def look(self, node: SeenMember, taken: FetchAnswer | None = None) -> None:
        """Judge what can be seen of a member that has just done something.

        ``taken`` is the leader's answer that it has taken, if that has changed its log.
        """
        replica, log = node.replica, node.log
        if replica is None or log is None:
            return
        state, end, mark = replica.state, log.log_end_offset, log.high_watermark
        has_failed = log.replica.failure is not None  # it may be in the middle of what it was told to do
        if taken is not None and taken.refusal is FetchRefusal.OUT_OF_RANGE and not has_failed:
            self.restarts += 1
            start = log.log_start_offset
            self._demand(
                start == end == taken.log_start_offset,
                "I12",
                f"node {node.node} has {start} to {end}, and was told that its leader starts at "
                f"{taken.log_start_offset}",
            )
        if state is None:
            return  # its disk has refused the first state that the registry had for it
        self._ends[node.node] = end
        self.steps.look(node.node, replica, log, taken)
        if mark > end:
            self.fail("I6", f"node {node.node}: high watermark {mark} above the end {end}")
        if not self.may_have_lost:
            self.contents.look(node.node, log, node.disk)
        if replica.role is not Role.LEADER:
            return
        self._note_committed(node, log)
        leader = self.leaders.setdefault(state.leader_epoch, node.node)
        if leader != node.node:
            self.fail("I1", f"nodes {leader} and {node.node} lead in epoch {state.leader_epoch}")
        if self._expected == state.leader_epoch:
            self._judge_leader(node)
        newest = self._newest
        if newest is not None and newest.leader_epoch == state.leader_epoch:
            self._judge_behind(newest, mark)

    def _judge_behind(self, state: PartitionState, mark: int) -> None:
        """Demand that the replicas that may lead next have what is below the leader's high watermark."""
        ends, lossy = self._ends, self.lossy
        behind = [node for node in state.isr if ends.get(node, mark) < mark and node not in lossy]
        if behind and len(behind) > self._scene.tolerance.may_lag(len(state.replicas)):
            self.fail(
                "I6",
                f"high watermark {mark} of leader {state.leader}, and of the ISR are behind: "
                f"{[(node, ends[node]) for node in behind]}",
            )
        for node in state.eligible:
            if ends.get(node, mark) < mark and node not in lossy:
                self.fail("I7", f"high watermark {mark}, and node {node}, which is eligible, ends at {ends[node]}")

    def _note_committed(self, node: SeenMember, log: Log) -> None:
        """Keep a compacted topic's table of what a leader has shown, before a compaction removes some of it."""
        end = log.high_watermark
        if not self._scene.compacts or end <= self._table_end:
            return
        for offset, record in _held_by(node, self._table_end).items():
            if self._table_end <= offset < end:
                self.table[key_of(record)] = (offset, record)
        self._table_end = end

    # -- what must hold in the end

    def judge_end(self) -> None:
        """Judge a cluster that was healed: the copies are equal, and have all that was promised.

        After a loss of more copies than the rules allow for, records may be missing; or none leads, and appends are
        refused.
        """
        scene = self._scene
        state = scene.state(self.partition)
        if self.may_have_lost and state.leader not in self._members:
            return
        self._demand(state.leader in self._members, "progress", f"no leader after the heal: {state}")
        self._demand(set(state.isr) == set(state.replicas), "progress", f"not in sync after the heal: {state}")
        leader = self._members[state.leader].log
        assert leader is not None
        whole = records_of(leader)
        for node in self._members.values():
            log = node.log
            assert log is not None
            self._demand(
                log.high_watermark == leader.log_end_offset == log.log_end_offset,
                "progress",
                f"node {node.node} has {log.high_watermark} of {leader.log_end_offset} offsets after the heal",
            )
            if scene.compacts:
                self._judge_compacted(node.node, log, leader)
                continue
            start = max(log.log_start_offset, leader.log_start_offset)
            held, led = ({at: each[at] for at in each if at >= start} for each in (records_of(log), whole))
            self._demand(held == led, "I2", f"node {node.node} has other records than its leader")
            theirs, ours = _epochs(leader, start), _epochs(log, start)
            self._demand(ours == theirs, "I2", f"node {node.node} has epochs {ours}, its leader {theirs}")
        for (epoch, offset), value in self.appended.items():
            is_there = offset in whole or not (scene.compacts or offset < leader.log_start_offset)
            if is_there and leader.replica.epochs.epoch_at(offset) == epoch:
                self._demand(whole.get(offset) == value, "I2", f"offset {offset} of epoch {epoch} has changed")
        self.lost_acknowledged = [
            each
            for each in self.acknowledged
            if each.offset >= leader.log_start_offset
            and whole.get(each.offset) != each.value
            and not self._is_cleaned(whole, each.offset, each.value)
        ]
        lost = [each for each in self.lost_acknowledged if each.acks is Acks.ALL]
        if not self.may_have_lost:
            self._demand(not lost, "I3", f"lost, and acknowledged by all in sync: {lost[:3]}")
            self._demand_records(self._members[state.leader], self.seen, "I5", "was read by a consumer")

    def _demand_records(self, member: SeenMember, wanted: dict[int, bytes], name: str, why: str) -> None:
        log = member.log
        assert log is not None
        start = log.log_start_offset  # what is below was deleted (I12)
        found = _held_by(member, min(wanted, default=0))
        for offset, value in wanted.items():
            if offset >= start and found.get(offset) != value and not self._is_cleaned(found, offset, value):
                self._demand(
                    False, name, f"offset {offset}, {value!r}, {why}; the log has {found.get(offset)!r} there"
                )

    # -- compacted topics

    def _is_cleaned(self, found: dict[int, bytes], offset: int, record: bytes) -> bool:
        """Whether a compaction may have removed a record: a newer one of its key was committed, or it deletes."""
        if not self._scene.compacts or offset in found:
            return False
        newest = self.table.get(key_of(record))
        return newest is not None and (newest[0] > offset or (newest[0] == offset and is_tombstone(record)))

    def _demand_table(self, member: SeenMember, why: str) -> None:
        """Each key has its newest committed record, or a later one; a key that was deleted has no older one."""
        if not self._scene.compacts:
            return
        held = {key_of(record): (offset, record) for offset, record in _held_by(member).items()}
        for key, newest in self.table.items():
            found = held.get(key)
            is_deleted = found is None and is_tombstone(newest[1])
            is_newer = found is not None and (found == newest or found[0] > newest[0])
            self._demand(is_deleted or is_newer, "I3", f"{newest} was committed, {why}; the log has {found}")

    def _judge_compacted(self, node: NodeId, log: Log, leader: Log) -> None:
        """Demand the same record at each offset that two copies both have, and the same table of keys."""
        ours, theirs = records_of(log), records_of(leader)
        for offset in ours.keys() & theirs.keys():
            epochs = [each.replica.epochs.epoch_at(offset) for each in (log, leader)]
            self._demand(
                ours[offset] == theirs[offset] and epochs[0] == epochs[1],
                "I2",
                f"node {node} has {ours[offset]!r} of epoch {epochs[0]} at offset {offset}, its leader "
                f"{theirs[offset]!r} of epoch {epochs[1]}",
            )
        tables = [
            {key: record for key, record in newest_by_key(each).items() if not is_tombstone(record)}
            for each in (ours, theirs)
        ]
        self._demand(tables[0] == tables[1], "I2", f"node {node} has other keys than its leader: {tables}")
        if not self.may_have_lost:
            self._demand_table(self._members[node], f"and node {node} is in sync")

    def _demand(self, holds: bool, name: str, message: str) -> None:
        if not holds:
            self.fail(name, message)

    def fail(self, name: str, message: str) -> NoReturn:
        """Raise `InvariantError`: what has that name does not hold."""
        scene = self._scene
        place = scene.places[self.partition]
        raise InvariantError(f"{name} at {scene.world.now_ms} ms, seed {scene.seed}, {place}: {message}")


def content_of(key: bytes | None, value: bytes | None) -> bytes:
    """Return what the ledger keeps of a record: its value, or ``key:`` for a tombstone."""
    if value is not None:
        return bytes(value)
    return b"" if key is None else bytes(key) + b":"


def key_of(content: bytes) -> bytes:
    """Return the key of a record of a compacted topic, whose values are ``key:text``."""
    return content.partition(b":")[0]


def is_tombstone(content: bytes) -> bool:
    return content.endswith(b":")


def newest_by_key(records: dict[int, bytes]) -> dict[bytes, bytes]:
    """Return the last record of each key."""
    return {key_of(records[offset]): records[offset] for offset in sorted(records)}


def records_of(log: Log, start: int = 0) -> dict[int, bytes]:
    """Return the records of a log from the batch of an offset up to its end, by their offsets."""
    found: dict[int, bytes] = {}
    offset = max(start, log.log_start_offset)
    while offset < log.log_end_offset:
        region = log.replica.fetch_region(offset, to_log_end=True).region
        assert region is not None
        for record in Batches(region.read()):
            found[record.offset] = content_of(record.key, record.value)
        offset = region.next_offset
        region.close()
    return found


def _held_by(member: SeenMember, start: int = 0) -> dict[int, bytes]:
    """Return the records of a member's log, also while its disk is about to fail."""
    log, disk = member.log, member.disk
    assert log is not None
    disk.spares = True
    try:
        return records_of(log, start)
    finally:
        disk.spares = False


def _epochs(log: Log, start: int) -> list[EpochEntry]:
    """Return the epochs that have records from an offset on; only a leader knows of one that has none."""
    entries = [entry for entry in log.replica.epochs.entries if entry.start_offset < log.log_end_offset]
    while len(entries) > 1 and entries[1].start_offset <= start:
        del entries[0]
    return [entry._replace(start_offset=max(entry.start_offset, start)) for entry in entries]


def values_below(log: Log, start: int, end: int) -> list[tuple[int, bytes]]:
    """Return what a consumer reads of a log, up to an end or its high watermark."""
    batches = log.read(start, max_bytes=4096)
    return [(record.offset, content_of(record.key, record.value)) for record in batches if record.offset < end]
