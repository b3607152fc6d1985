"""The interfaces of replication: the registry, the transport, and the replica.

A registry is a tree of small versioned facts, as ZooKeeper's, with one way to change it: a commit of several
changes, each under its condition, of which all take place or none. The rules of replication stand above it, once;
a registry knows nothing of them. Adapters for ZooKeeper, for SQL and for a dict in memory are small.

A transport carries a request to another node and its answer back. It may lose, repeat, delay and reorder both, and
never alters them.

A replica is a set of rules: one copy of a partition on one node, as a state machine. It has no clock, no thread, no
network and no registry: a driver hands it what it has read, and carries out what it asks for.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from logstore.errors import LogstoreError
from logstore.io._file_region import FileRegion
from logstore.metrics import Role as Role
from logstore.records import Acks as Acks
from logstore.records import AppendResult

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: The number of a node of a cluster, from 0 to 2**31 - 1: Kafka's ``broker.id``.
NodeId: TypeAlias = int


class Fact(NamedTuple):
    """One fact of a registry, as it was when it was read."""

    path: str  #: with a leading slash and names between slashes, such as ``/brokers/ids/1``
    value: bytes
    #: 0 when it was created, one more with each write.
    version: int
    #: The number of the commit that created it: never the same for two facts, and rising with each creation. A fact
    #: that was deleted and created again has another one.
    created: int


class Create(NamedTuple):
    """A change that makes a fact where there is none."""

    path: str
    value: bytes
    #: The fact is deleted when the session ends that has created it. It has no children.
    ephemeral: bool = False
    #: The registry appends a number of ten digits to the path, larger than that of every earlier one below the
    #: same parent.
    sequential: bool = False


class Write(NamedTuple):
    """A change that replaces the value of a fact that has this version."""

    path: str
    value: bytes
    version: int


class Delete(NamedTuple):
    """A change that removes a fact that has this version, and no children."""

    path: str
    version: int


class Check(NamedTuple):
    """A condition without a change: a fact has this version."""

    path: str
    version: int


Change: TypeAlias = Create | Write | Delete | Check


class RegistryWatch(ABC):
    """A wish to hear of the changes of a path; see `Registry.watch`."""

    @abstractmethod
    def close(self) -> None:
        """Notify no more. May be called again, and from any thread. A call that has begun may still come."""


class Watches:
    """The watches of one session, for an adapter that learns of changes without their paths. Any thread may call.

    >>> watches = Watches()
    >>> watch = watches.add(lambda: print("changed"))
    >>> watches.notify_all()
    changed
    >>> watch.close()
    >>> watches.notify_all()
    """

    def __init__(self) -> None:
        self._all: dict[_ListedWatch, None] = {}

    def add(self, notify: Callable[[], object]) -> RegistryWatch:
        """Return a new watch, which is notified until it is closed."""
        watch = _ListedWatch(self._all, notify)
        self._all[watch] = None
        return watch

    def notify_all(self) -> None:
        """Notify every watch: a call without a change does no harm."""
        for watch in list(self._all):
            watch.notify()


class _ListedWatch(RegistryWatch):
    def __init__(self, listed: dict[_ListedWatch, None], notify: Callable[[], object]) -> None:
        self._listed, self.notify = listed, notify

    def close(self) -> None:
        self._listed.pop(self, None)


class Registry(ABC):
    """A tree of small versioned facts, as one session sees it.

    A path begins with a slash, and names of one or more characters follow, separated by slashes. A parent need not
    be a fact: ``/a/b`` may be created without ``/a``. Values are at most 1 MB, and mean nothing to the registry.

    A session belongs to one object of this class. It ends when the object is closed, or when the registry has not
    heard of it for some time; then its ephemeral facts are deleted. A session that has ended stays so.

    Reads may be old, but never older than what the same session has read or committed before. Any thread may call
    any method; each may block on a network. An exception of another kind than those named is the adapter's fault:
    the rules take it as `RegistryUnreachableError`.
    """

    @abstractmethod
    def read(self, path: str) -> Fact | None:
        """Return the fact of a path, None if there is none.

        Raises:
            RegistryUnreachableError: no answer came, or the session has ended.
            ValueError: the path is malformed.
        """

    @abstractmethod
    def children(self, path: str) -> frozenset[str]:
        """Return the names right below a path, without slashes; ``/`` is the root.

        A name is there if a fact has that path or one below it. Raises as `read`.
        """

    @abstractmethod
    def commit(self, changes: Sequence[Change]) -> list[Fact | None]:
        """Make all changes in their order, or none. Return, for each, the fact as it is afterwards.

        None stands for a fact that was deleted. Each change sees those before it. On return the changes are as
        durable as the registry promises, and each later read of this session has them.

        Raises:
            StaleFactError: a condition does not hold: a fact to be created is there, one to be written, deleted or
                checked is not or has another version, one to be deleted has children, or its parent is ephemeral.
                Its path is named. Nothing has changed.
            RegistryUnreachableError: no answer came, or the session has ended. Whether the changes took
                place is unknown: the caller reads again, and its values let it recognize its own.
            ValueError: a path is malformed. Nothing has changed.
        """

    @abstractmethod
    def watch(self, path: str, notify: Callable[[], object]) -> RegistryWatch:
        """Call ``notify()`` after each change of a path's fact or its children's names, until the watch is closed.

        Several changes may call it once, and a call may come without a change: the caller reads. It is also called
        after a reconnection, and when the session has ended. ``notify`` returns soon and calls no method of the
        registry: it sets a flag or wakes a thread. It is called without a lock of the registry, in any thread.

        Raises:
            RegistryUnreachableError: the session has ended.
            ValueError: the path is malformed.
        """

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether the session has not ended, as far as this object knows. False is final."""

    @abstractmethod
    def close(self) -> None:
        """End the session: delete its ephemeral facts, notify its watches once more. May be called again."""


class Transport(ABC):
    """Carries requests to other nodes. The embedder's server hands them to its own node there, and answers."""

    @abstractmethod
    def call(self, to: NodeId, request: bytes, *, timeout_s: float) -> bytes:
        """Send a request to a node and return its answer. Any number of calls may be under way.

        A request may arrive later, twice or never, and an answer may be lost: the rules allow for all of it. Bytes
        that arrive are those that were sent.

        Raises:
            PeerUnreachableError: no answer came within ``timeout_s`` seconds, or the node cannot be reached.
        """


#: No node: the leader of a partition that has none.
NO_NODE: NodeId = -1


class Standing(NamedTuple):
    """How far a replica's log reaches: compared first by epoch, then by end."""

    last_epoch: int
    log_end_offset: int


class PartitionState(NamedTuple):
    """What the registry says of one partition. `logstore.replication.facts` has its bytes.

    A set of rules decides what ISR, eligible replicas and standings mean to it. It changes leader, epoch, and
    these; the rest is given. A leader is in the ISR, and no replica is both in the ISR and eligible. An election
    raises the epoch by one. A commit raises the version by one.
    """

    replicas: tuple[NodeId, ...]  #: the assignment; the first one is the preferred leader
    isr: tuple[NodeId, ...]  #: the replicas in sync, in the order of the assignment
    leader: NodeId = NO_NODE
    leader_epoch: int = 0  #: 0 before the first election; rises with each
    #: Replicas that have every acknowledged record too, since the high watermark has stood still from the moment
    #: they left the ISR (KIP-966). Empty while the ISR has the minimum.
    eligible: tuple[NodeId, ...] = ()
    last_leader: NodeId = (
        NO_NODE  #: the newest leader; it may lead again when neither ISR nor eligible ones are left
    )
    adding: tuple[NodeId, ...] = ()  #: replicas that a reassignment under way adds (KIP-455)
    removing: tuple[NodeId, ...] = ()
    controller_epoch: int = 0
    #: With a quorum, while there is no leader: how far those replicas reach that obey no older epoch any more.
    standings: tuple[tuple[NodeId, Standing], ...] = ()
    version: int = -1  #: of the fact in the registry; -1 if it is not stored yet


class FetchFrom(NamedTuple):
    """A follower's question for one partition: which records follow on mine?"""

    node: NodeId
    #: The number of the follower's registration; a process that starts again has a larger one (KIP-903).
    life: int
    leader_epoch: int  #: the epoch that the follower takes for the current one
    offset: int  #: its log end offset
    last_epoch: int  #: the epoch of its last record; -1 if it has none
    log_start_offset: int
    max_bytes: int


class Diverging(NamedTuple):
    """The end of a leader epoch in a leader's log: its largest offset plus one."""

    epoch: int
    end_offset: int


class FetchRefusal(enum.IntEnum):
    """Why a leader does not answer a `FetchFrom`; the value is Kafka's error code."""

    OUT_OF_RANGE = 1  #: the offset is below the log start or above the log end
    NOT_LEADER = 6
    NOT_A_REPLICA = 9  #: the follower is not in the assignment
    STORAGE_FAILED = 56
    OLD_EPOCH = 74  #: the follower knows an older leader epoch
    NEW_EPOCH = 75  #: the follower knows a newer leader epoch than the one that it has asked
    STALE_REGISTRATION = 77  #: a later process of the follower has asked already


class FetchAnswer(NamedTuple):
    """A leader's answer to a `FetchFrom`."""

    leader_epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1
    #: Whole batches from the asked offset on: a region of the leader's file where the driver sends it, bytes where
    #: it has received them. None if there are none.
    records: FileRegion | Buffer | None = None
    #: Where the newest epoch ends that both may have, if the follower's log differs from the leader's (KIP-595).
    diverging: Diverging | None = None
    refusal: FetchRefusal | None = None
    #: Of a compacted log, with ``records``: the leader lacks tombstones below this offset, 0 if none
    #: (`LogReplica.dropped_end`). To a follower with an empty log: the `LogReplica.clean_end` of its copy.
    dropped_end: int = 0


class Pending:
    """An append that waits for its acks. The driver's lock guards it, as it does the replica."""

    __slots__ = ("epoch", "error", "is_settled", "notify", "result")

    def __init__(self, result: AppendResult, epoch: int, notify: Callable[[], object] | None = None) -> None:
        self.result = result  #: the offsets that the leader has given; they count once there is no error
        self.epoch = epoch  #: the leader epoch of the append; it is acknowledged in that epoch or never
        self.is_settled = False
        self.error: LogstoreError | None = None
        #: Called when this is settled. It sets a flag or wakes a thread, and calls no method of the replica.
        self.notify = notify

    def settle(self, error: LogstoreError | None = None) -> None:
        """Let the append be acknowledged, or fail. The first call counts; another ends one that was interrupted."""
        if not self.is_settled:
            # In this order: a thread without the driver's lock may look.
            self.error = error
            self.is_settled = True
        if self.notify is not None:
            self.notify()
            self.notify = None


class LostRange(NamedTuple):
    """Offsets that this replica had shown to consumers, and has cut: an unclean election has lost them."""

    start_offset: int
    end_offset: int  #: exclusive
    leader_epoch: int  #: of the leader that lacks them


class Replica(ABC):
    """One copy of a partition on one node, by one set of rules.

    It alone decides role, cuts and high watermark of its log. It has no clock, no thread and no I/O but its log's:
    a driver calls it with what it has read from the registry and from other nodes, and with its monotonic time.
    One caller at a time: the driver has a lock for each replica, which comes before the log's lock. Where a main
    thread appends, a signal handler may raise at any line of `check_append` and `wait`: the next call goes on.

    A method that raises an error of its log (`StorageError`) has changed nothing that counts: the driver may call
    it again, and a log that has failed refuses for good. Every other input may come late, twice or never.
    """

    @property
    @abstractmethod
    def state(self) -> PartitionState | None:
        """The newest state of the registry that `apply` has taken."""

    @property
    @abstractmethod
    def role(self) -> Role:
        """What this replica is in the newest state; `Role.NONE` before the first one."""

    @property
    @abstractmethod
    def high_watermark(self) -> int:
        """The log's high watermark. It is at most the log end, and does not fall in an epoch."""

    @property
    @abstractmethod
    def lost(self) -> Sequence[LostRange]:
        """What was lost of the records that this replica had shown, in the order of the cuts."""

    @abstractmethod
    def lag(self) -> dict[NodeId, int]:
        """Return how many records replicas lack, as `ReplicaMetrics.lag` says."""

    @abstractmethod
    def apply(self, state: PartitionState, now_ms: int) -> None:
        """Take the registry's state: lead, follow, or learn of another ISR. An older state has no effect.

        A new leader's epoch and its start are on the disk when this returns, and its log takes appends of clients;
        that of any other replica refuses them (`NotLeaderError`). Every `Pending` of an older epoch has failed.

        Raises:
            MalformedFactError: a newer version has an older leader epoch, or another leader in the same one, as
                after a registry was restored. Nothing has changed.
        """

    @abstractmethod
    def append(
        self, batch: Buffer, *, acks: Acks, now_ms: int, notify: Callable[[], object] | None = None
    ) -> Pending:
        """Append a client's batch at the leader. See `LogReplica.append_batch` for its errors.

        Raises:
            NotLeaderError: this replica does not lead. Nothing is written.
            NotEnoughReplicasError: with `Acks.ALL`, the ISR is below the minimum. Nothing is written.
        """

    @abstractmethod
    def check_append(self, acks: Acks) -> int:
        """Return the leader epoch if an append may begin; raise as `append`.

        For a driver whose threads append to the log without its lock: it calls this, appends, and calls `wait`.
        """

    @abstractmethod
    def wait(
        self,
        result: AppendResult,
        epoch: int,
        *,
        acks: Acks,
        now_ms: int,
        notify: Callable[[], object] | None = None,
    ) -> Pending:
        """Return the wait for the acks of an append that was made in a leader epoch; see `check_append`.

        If the epoch is another one by now, it has failed already: the records may have been written in either.
        """

    @abstractmethod
    def answer(self, wants: FetchFrom, now_ms: int) -> FetchAnswer:
        """Answer a follower: records up to the log end, where it diverges, or why not.

        What a follower asks for tells the leader how far it has come, so the high watermark may rise. The same
        question may come again, late, and after a newer one. A driver may keep a question instead of having it sent
        again (KIP-227). Then it calls this with it whenever the log has grown or the high watermark has moved while
        the follower asks for anything, and several times within ``replica.lag.time.max.ms`` in any case.
        """

    @abstractmethod
    def ask(self, now_ms: int) -> tuple[NodeId, FetchFrom] | None:
        """Return the node to ask, and the question; None unless this replica follows a leader.

        A driver calls it after each answer and each new state, and several times within
        ``replica.lag.time.max.ms`` in any case.
        """

    @abstractmethod
    def take(self, asked: FetchFrom, fetched: FetchAnswer, now_ms: int) -> bool:
        """Take an answer: cut, begin again, or append, and learn the high watermark.

        Returns whether the log or the high watermark has changed. An answer to a question of another epoch or
        another end has no effect.

        Raises:
            RecordError, UnexpectedOffsetError, FencedLeaderEpochError: the answer holds something else than
                whole batches that follow on this log. Those before the bad one are appended.
        """

    @abstractmethod
    def propose(self, lives: Mapping[NodeId, int], now_ms: int) -> PartitionState | None:
        """Return the state that this leader wants stored in the place of `state`; None if it wants no other.

        ``lives`` has the nodes that live and are not stopping, with the numbers of their registrations. The
        version of the returned state is still that of the state that it is to replace. The driver commits the
        state on condition of its version, and of the lives of those that join, and hands what the registry has
        then to `apply`. Until a newer state comes, this method returns the same proposal: a commit whose answer
        was lost may still take place. If a node that would join lives no more, or has registered again, it returns
        one without that node, and goes on counting on both.
        """

    @abstractmethod
    def standing(self) -> Standing:
        """Return how far this log reaches: the epoch of its last record (-1 without one), and its end.

        An epoch without records counts for nothing. Rules whose acknowledgements rest on synced records sync first.
        """

    def forget(self, pending: Pending, error: LogstoreError) -> None:
        """Fail one `Pending` that has no waiter any more, and keep it no longer than the others."""
        pending.settle(error)

    @abstractmethod
    def stop_waiting(self, error: LogstoreError) -> None:
        """Fail every `Pending` with the error: the driver is closed."""


def check_path(path: str, *, root: bool = False) -> str:
    """Return a path if it is well-formed; with ``root`` a single slash is.

    Raises:
        ValueError: it is not.
    """
    if root and path == "/":
        return path
    if not path.startswith("/") or "" in path[1:].split("/"):
        raise ValueError(f"a path of a registry begins with a slash and has no empty name, found {path!r}")
    return path
