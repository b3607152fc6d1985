"""Replicas of one partition without time and without a network, for the steps of a conformance suite.

A test makes each step: a new epoch, an append, a fetch, a death. The logs are those of production, on simulated
disks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from logstore.batch._encode import encode
from logstore.config.log import LogConfig
from logstore.errors import LogstoreError
from logstore.log import FOLLOWS, Log
from logstore.replication.api import Acks, FetchAnswer, FetchFrom, NodeId, PartitionState, Pending, Replica
from logstore.replication.election import created
from logstore.testing.clock import ManualClock
from logstore.testing.cluster.ledger import records_of
from logstore.testing.simdisk import SimDisk

#: The directory of each log, on its own disk.
DIRECTORY = "/data/t-0"
#: Rounds of fetches after which copies that still differ never become equal.
PATIENCE = 50


class Copies:
    """Replicas of one partition, on logs in simulated disks. Nothing happens between the calls of a test."""

    def __init__(self, make: Callable[[Log, NodeId, int], Replica], count: int) -> None:
        self._make = make
        self.nodes: tuple[NodeId, ...] = tuple(range(1, count + 1))
        self.now_ms = 0
        self.state = created(self.nodes)._replace(version=0)
        self.lives: dict[NodeId, int] = {}
        self.disks: dict[NodeId, SimDisk] = {}
        self.logs: dict[NodeId, Log] = {}
        self.replicas: dict[NodeId, Replica] = {}
        for node in self.nodes:
            self.start(node, SimDisk(seed=node))

    def __enter__(self) -> Copies:
        return self

    def __exit__(self, *_: object) -> None:
        for log in self.logs.values():
            try:
                log.close()
            except LogstoreError:
                pass  # its disk has failed

    def start(self, node: NodeId, disk: SimDisk) -> None:
        """Begin the next life of a node, on a disk; the process before it is dead."""
        old = self.logs.pop(node, None)
        if old is not None:
            old.close()
        self.lives[node] = self.lives.get(node, 0) + 1
        self.disks[node] = disk
        self.logs[node] = Log.open(
            DIRECTORY,
            LogConfig(segment_bytes=16_384),
            files=disk,
            clock=ManualClock(),
            policy=FOLLOWS,
        )
        self.replicas[node] = self._make(self.logs[node], node, self.lives[node])

    def lead(self, node: NodeId, *, known_to: tuple[NodeId, ...] | None = None) -> PartitionState:
        """Store a new epoch in which a node leads, with all replicas in sync; those nodes learn of it, else all."""
        epoch, version = self.state.leader_epoch + 1, self.state.version + 1
        self.state = self.state._replace(leader=node, last_leader=node, leader_epoch=epoch, version=version)
        for each in self.nodes if known_to is None else known_to:
            self.replicas[each].apply(self.state, self.now_ms)
        return self.state

    def append(self, *values: bytes, acks: Acks = Acks.LEADER, **options: Any) -> Pending:
        """Append a batch at the leader."""
        batch = encode(list(values), timestamp_ms=0)
        return self.replicas[self.state.leader].append(batch, acks=acks, now_ms=self.now_ms, **options)

    def asked(self, node: NodeId) -> tuple[FetchFrom, FetchAnswer] | None:
        """Return the question of a follower and its answer, as a driver hands it over; None if it asks nothing."""
        question = self.replicas[node].ask(self.now_ms)
        if question is None:
            return None
        to, wants = question
        return wants, received(self.replicas[to].answer(wants, self.now_ms))

    def fetch(self, node: NodeId) -> bool:
        """Let a follower ask and take the answer; return whether it has changed."""
        found = self.asked(node)
        return found is not None and self.replicas[node].take(*found, self.now_ms)

    def converge(self) -> None:
        """Let every follower fetch until nothing changes, and each has said so to the one that it asks."""
        still = 0
        for _ in range(PATIENCE * len(self.nodes)):
            moved = [self.fetch(node) for node in self.nodes]
            still = 0 if any(moved) else still + 1
            if still > len(self.nodes):
                return
        pytest.fail(f"{PATIENCE} fetches of each follower end nowhere")

    def image(self, node: NodeId) -> tuple[bytes, int, object, object]:
        """Return everything that a call without effect leaves as it is."""
        log, replica = self.logs[node], self.replicas[node]
        return bytes_of(log), log.high_watermark, log.replica.epochs.entries, (replica.state, replica.role)

    def check_equal(self) -> None:
        """Check that every replica has what the leader has, and that all of it is below its high watermark."""
        leader = self.logs[self.state.leader]
        for node, log in self.logs.items():
            assert records_of(log) == records_of(leader), f"node {node} has other records than its leader"
            assert log.high_watermark == leader.log_end_offset == log.log_end_offset, (
                f"node {node} has high watermark {log.high_watermark} of {leader.log_end_offset}"
            )


def received(answer: FetchAnswer) -> FetchAnswer:
    """Return an answer as it arrives: with the bytes of its file region."""
    region: Any = answer.records
    if region is None:
        return answer
    with_bytes = answer._replace(records=region.read())
    region.close()
    return with_bytes


def bytes_of(log: Log) -> bytes:
    """Return the batches of a log as they are stored, up to its end."""
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        region = log.replica.fetch_region(offset, to_log_end=True).region
        assert region is not None
        found.append(region.read())
        offset = region.next_offset
        region.close()
    return b"".join(found)
