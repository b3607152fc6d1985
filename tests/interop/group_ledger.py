"""What members of a group were given and have committed, line by line, and what must hold of it.

A member is a process: ``python -m tests.interop.group_ledger BOOTSTRAP GROUP TOPIC SETTINGS PATH``, where
the settings are JSON. It writes a line for each event to the file at PATH, in the call that the event belongs to:
the records of a poll before the next poll, a revocation inside its callback, a commit before it is sent and after
its answer. A killed process thus leaves all that it knew. SIGTERM lets the member leave.

Times are those of the machine's monotonic clock, so that the lines of all members have one order.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from logstore.client.consumer import open_consumer
from logstore.records import TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.backend.membership import RemoteMembership
from logstore.remote.client import Client


class Event(NamedTuple):
    """One line, and the member that wrote it. ``dies`` and ``leaves`` are told by the test, of no partition."""

    time_ns: int
    member: str
    what: str  #: assigned, revoked, lost, given, commits, committed; dies, leaves
    partition: int
    offset: int


def events_of(path: Path, member: str) -> list[Event]:
    """Return the lines that a member has written; one that was cut off with its process does not count."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [
        Event(int(time_ns), member, what, int(partition), int(offset))
        for time_ns, what, partition, offset in map(str.split, lines)
    ]


def held_by(events: Iterable[Event]) -> set[int]:
    """Return the partitions that a member holds after its events."""
    held: set[int] = set()
    for event in events:
        if event.what == "assigned":
            held.add(event.partition)
        elif event.what in ("revoked", "lost"):
            held.discard(event.partition)
    return held


class _History:
    """One partition in the order of events: its owner, and which offsets the next owner may begin at.

    ``end`` is the offset after the last record that was ever given. ``may`` are the committed offsets that the
    group may have: the one that was answered last, and those that were sent since.
    """

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.owner: str | None = None
        self.place = 0  #: the offset after the last record that the owner was given; -1 before the first one
        self.end = 0
        self.may = {0}
        self.was_cut = False  #: whether the last owner ended without a word
        self.again = 0
        self.faults: list[str] = []

    def take(self, event: Event) -> None:
        if event.what == "assigned":
            if self.owner is not None:
                self._fault(event, f"{self.owner} still holds it")
            self.owner, self.place = event.member, -1
        elif event.what == "given":
            self._give(event)
        elif event.what == "commits":
            if event.offset > self.end:
                self._fault(event, f"records up to {self.end} were given")
            if event.member != self.owner:
                self._fault(event, f"{self.owner} holds it")
            self.may.add(event.offset)
        elif event.what == "committed":
            self.may = {event.offset}
        elif event.member == self.owner:
            if event.what == "lost":
                self._fault(event, "the member lives")
            # A member that was given nothing leaves the state of the one before.
            if self.place >= 0:
                self.was_cut = event.what in ("lost", "dies")
            self.owner = None

    def _give(self, event: Event) -> None:
        if event.member != self.owner:
            self._fault(event, f"{self.owner} holds it")
        if self.place >= 0:
            if event.offset != self.place:
                self._fault(event, f"{self.place} is the next one")
        elif self.was_cut:
            if event.offset not in self.may or event.offset > self.end:
                self._fault(event, f"committed may be {sorted(self.may)}, of {self.end} that were given")
            self.may = {event.offset}
        elif event.offset != self.end:
            self._fault(event, f"{self.end} is the next one, and the last member left it in peace")
        self.again += event.offset < self.end
        self.place = event.offset + 1
        self.end = max(self.end, self.place)

    def _fault(self, event: Event, why: str) -> None:
        self.faults.append(f"{event.member}: partition {self.partition}: {event.what} {event.offset}: {why}")


class Ledger:
    """The events of all members, and what of it must not be.

    Of each partition: one member holds it at a time; offsets rise by one without a gap; a member begins where the
    one before ended, or after a death at an offset that may be committed; what is committed was given before.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        histories: dict[int, _History] = {}
        for event in sorted(events):
            if event.what in ("dies", "leaves"):
                for history in histories.values():
                    history.take(event)
            else:
                histories.setdefault(event.partition, _History(event.partition)).take(event)
        self.faults = [fault for _, history in sorted(histories.items()) for fault in history.faults]
        self.again = sum(history.again for history in histories.values())  #: how often a record was given once more
        self.ends = {partition: history.end for partition, history in histories.items()}
        self.committed = {partition: history.may for partition, history in histories.items()}

    def check(self, written: Mapping[int, int], *, deaths: int) -> None:
        """Fail unless all records, this many in each partition, were given, and some again only after deaths."""
        assert self.faults == [], "\n".join(self.faults[:20])
        assert self.ends == dict(written), "not every record was given"
        assert deaths or not self.again


def shares_are_fair(held: Iterable[set[int]], partitions: int) -> bool:
    """Tell whether each partition is held once, and no member holds two more than another."""
    shares = [*held]
    owners = Counter(one for share in shares for one in share)
    sizes = [len(share) for share in shares]
    return owners == Counter(range(partitions)) and max(sizes) - min(sizes) <= 1


def main(bootstrap: str, group: str, topic: str, settings: str, path: str) -> None:
    """Be a member until SIGTERM."""
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ends.append(number))
    ledger = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(what: str, offsets: Mapping[int, int]) -> None:
        now_ns = time.monotonic_ns()
        lines = [f"{now_ns} {what} {partition} {offset}\n" for partition, offset in offsets.items()]
        os.write(ledger, "".join(lines).encode())

    def noted(what: str) -> Any:
        return lambda partitions: note(what, {one.partition: 0 for one in partitions})

    commit = RemoteMembership.commit

    def noted_commit(
        membership: RemoteMembership, offsets: Mapping[TopicPartition, Any], *, waits: bool = False
    ) -> None:
        found = {name.partition: one.offset for name, one in offsets.items()}
        note("commits", found)
        commit(membership, offsets, waits=waits)
        note("committed", found)

    RemoteMembership.commit = noted_commit  # type: ignore[method-assign,assignment]  # automatic commits are seen as well
    backend = RemoteBackend(Client(bootstrap, is_patient=True, metadata_max_age_ms=2_000, fetch_max_wait_ms=100))
    consumer = open_consumer(backend, group, json.loads(settings), {})
    longest_s, polled_s = 0.0, time.monotonic()

    def lost(partitions: list[TopicPartition]) -> None:
        noted("lost")(partitions)
        # The contract has no loop; that of brokers has.
        member = consumer._group and consumer._group.membership._loop.member  # type: ignore[attr-defined]
        why = getattr(member, "_reason", None)
        print(f"lost: {why}; at most {longest_s:.1f} s between polls, now {time.monotonic() - polled_s:.1f} s",
              file=sys.stderr, flush=True)  # fmt: skip

    consumer.subscribe(topic, on_assigned=noted("assigned"), on_revoked=noted("revoked"), on_lost=lost)
    while not ends:
        now_s = time.monotonic()
        longest_s, polled_s = max(longest_s, now_s - polled_s), now_s
        for record in consumer.poll(0.1, max_records=5):
            note("given", {record.partition: record.offset})
    consumer.close()
    backend.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
