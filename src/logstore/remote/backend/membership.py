"""Membership of one consumer in a group of a cluster, by either protocol of Kafka.

`RemoteMembership` is the side of the consumer's thread. `member_loop` talks with the coordinator.
"""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Collection, Mapping

from logstore.client.backend.membership import GroupChange, GroupMembership, Topics
from logstore.config.remote import ClusterConsumerConfig
from logstore.errors import BrokerError, GroupFencedError, LogstoreError
from logstore.groups.membership.classic import ClassicMember, CommitOutcome, GroupIdentity
from logstore.groups.membership.member import ACTIVE, MemberPhase
from logstore.groups.membership.modern import ModernMember
from logstore.groups.membership.timing import MemberSettings
from logstore.groups.offsets import OffsetAndMetadata
from logstore.io._interrupts import held, interrupted
from logstore.io._notifier import Notifier
from logstore.protocol import codes
from logstore.records import TopicPartition
from logstore.remote.backend.group_offsets import RemoteOffsets
from logstore.remote.backend.member_loop import Member, MemberLoop
from logstore.remote.client import Client

#: How long the last commit waits for a rebalance, and `RemoteMembership.wait_for_end`; as Kafka's consumer does
#: when it is closed.
END_S = 30.0

_REBALANCE_IN_PROGRESS = 27

#: A commit with one of these codes was made by a member of the past.
_FENCED = frozenset({"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH"})


class RemoteMembership(GroupMembership):
    """One consumer in its group. Owns: a thread."""

    def __init__(
        self, client: Client, offsets: RemoteOffsets, config: ClusterConsumerConfig, notifier: Notifier
    ) -> None:
        self._client = client
        self._offsets = offsets
        self._group = config.group_id
        self._instance_id = config.group_instance_id or None
        wire = client.config
        settings = MemberSettings(
            group_id=config.group_id,
            group_instance_id=self._instance_id,
            client_rack=config.client_rack or wire.client_rack or None,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            max_poll_interval_ms=config.max_poll_interval_ms,
            request_timeout_ms=wire.request_timeout_ms,
            retry_backoff_ms=wire.retry_backoff_ms,
            retry_backoff_max_ms=wire.retry_backoff_max_ms,
        )
        now_ms = MemberLoop.now_ms()
        member: Member
        if config.group_protocol == "consumer":
            member = ModernMember(settings, now_ms, server_assignor=config.group_remote_assignor or None)
        else:
            member = ClassicMember(settings, now_ms, assignors=config.assignors)
        self.poll_s = config.max_poll_interval_ms / 3000
        self._loop = MemberLoop(client, member, notifier, takes_internal=not config.exclude_internal_topics)
        self._end_s = float("inf")
        self._finalizer = weakref.finalize(self, self._loop.stop)
        self._finalizer.atexit = False

    def subscribe(self, topics: Topics) -> None:
        if isinstance(topics, re.Pattern):
            self._loop.subscribe(frozenset(), topics)
        else:
            self._loop.subscribe(frozenset(topics), None)

    def listen(self, notifier: Notifier) -> None:
        self._loop.notifier = notifier

    def has_change(self) -> bool:
        return self._loop.change is not None or bool(self._loop.failures)

    def polled(self) -> None:
        loop = self._loop
        if loop.failures:
            failure = loop.failures[0]
            if not failure.is_final:
                loop.failures.popleft()
            raise failure.error.with_traceback(None)
        loop.check_usable()
        with held(loop.lock):
            loop.member.polled(loop.now_ms())
        loop.go_on()

    def change(self) -> GroupChange | None:
        return self._loop.change

    def changed(self, change: GroupChange) -> None:
        self._loop.finish(change)

    # -- commits

    def _identity(self) -> tuple[GroupIdentity | None, bool]:
        """Return what a commit says of the member, None while it is none; whether the group is being divided."""
        with held(self._loop.lock):
            member = self._loop.member
            if member.phase not in ACTIVE and member.phase is not MemberPhase.LEAVING:
                return None, False
            if isinstance(member, ModernMember):
                epoch = member.epoch
                return GroupIdentity(member.member_id, epoch, self._instance_id) if epoch > 0 else None, False
            return (member.identity if member.identity.generation >= 0 else None), member.is_dividing

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, waits: bool = False) -> None:
        attempts = self._client.cluster.attempts(f"commit of group {self._group!r}")
        until_s = time.monotonic() + END_S if waits else 0.0
        while True:
            identity, was_dividing = self._identity()
            if identity is None:
                raise self._fenced(f"commit of group {self._group!r}: this consumer is no member of it now")
            try:
                self._offsets.commit_as(identity, self._group, offsets)
                return
            except BrokerError as error:
                waits = time.monotonic() < until_s
                # The broker has moved the member to an epoch that its next heartbeat tells, or divides the group.
                attempts.pause(self._reason_to_wait(error, identity, was_dividing, offsets if waits else None))

    def _reason_to_wait(
        self,
        error: BrokerError,
        identity: GroupIdentity,
        was_dividing: bool,
        waiting: Collection[TopicPartition] | None,
    ) -> LogstoreError:
        """Return why a refused commit is sent again, as the error to be raised if there is no time; raise others.

        ``waiting``: the partitions, if the end of a rebalance is waited for while they are held.
        """
        loop = self._loop
        is_divided = False
        outcome = CommitOutcome.FENCED if codes.name_of(error.code) in _FENCED else CommitOutcome.REFUSED
        with held(loop.lock):
            if isinstance(loop.member, ModernMember):
                loop.member.commit_refused(error.code, identity.generation, loop.now_ms())
            else:
                is_newer = loop.member.identity.generation > identity.generation
                is_dividing = was_dividing or loop.member.is_dividing
                outcome = loop.member.settle_commit(error.code, identity, loop.now_ms())
                is_divided = is_newer and error.name == "ILLEGAL_GENERATION"
                if outcome is CommitOutcome.REBALANCING:
                    is_divided = is_newer or is_dividing
                if waiting is None or not loop.member.held.issuperset(waiting):
                    is_divided = False
        loop.go_on()
        if outcome is CommitOutcome.REBALANCING or is_divided:
            told: LogstoreError = error
            if error.code != _REBALANCE_IN_PROGRESS:
                told = codes.error_of(_REBALANCE_IN_PROGRESS, f"commit of group {self._group!r}")
            told.add_note("the group is being divided: poll, and commit what is still assigned")
            if is_divided:
                return told
            raise told
        if outcome is CommitOutcome.FENCED:
            raise self._fenced(str(error)) from error
        if error.name == "STALE_MEMBER_EPOCH":
            return error
        raise error

    def _fenced(self, what: str) -> GroupFencedError:
        return GroupFencedError(
            f"{what}; its partitions may belong to other members: poll to join again, and look at "
            "max.poll.interval.ms if the handling of records took long"
        )

    # -- the end

    def leave(self) -> None:
        loop = self._loop
        self._end_s = time.monotonic() + END_S
        with held(loop.lock):
            loop.member.close(loop.now_ms())
        if not loop.has_ended:
            loop.go_on()

    def wait_for_end(self) -> bool:
        loop = self._loop
        while loop.change is None:
            left_s = self._end_s - time.monotonic()
            if loop.has_ended or left_s <= 0 or interrupted():
                return True
            loop.wait_for_news(min(left_s, 0.2))
        return False

    def close(self) -> None:
        self._finalizer.detach()
        self._loop.stop()
        self._loop.join()
