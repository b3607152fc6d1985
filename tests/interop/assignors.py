"""What the assignors of Kafka's Java client answer for generated groups.

``python -m tests.interop.assignors`` writes ``tests/fixtures/assignors-4.3.1.jsonl`` again, which the ordinary
tests compare with; `test_assignors` here asks Java about many more groups.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from logstore.groups.assignors import cooperative, ranges, round_robin, sticky
from logstore.groups.assignors.embedded import encode_assignment, encode_subscription
from logstore.groups.assignors.members import Assigned, GroupMember
from logstore.groups.assignors.user_data import decode_sticky, encode_cooperative, encode_sticky
from logstore.records import TopicPartition
from tests.interop.broker import ROOT, VERSION, fetch, java

FIXTURE = ROOT / "tests" / "fixtures" / f"assignors-{VERSION}.jsonl"

ASSIGNORS: dict[str, Any] = {module.NAME: module.assign for module in (ranges, round_robin, sticky, cooperative)}
RACKS = ("east", "north", "west", "south")


class Case(NamedTuple):
    """One group at one rebalance: for each topic the racks of each partition, and the members."""

    assignor: str
    topics: dict[str, list[list[str]]]
    members: dict[str, GroupMember]  #: their user data in hex

    def ours(self) -> Assigned:
        counts = {topic: len(racks) for topic, racks in self.topics.items()}
        members = {
            name: one._replace(user_data=None if one.user_data is None else bytes.fromhex(one.user_data))
            for name, one in self.members.items()
        }
        found: Assigned = ASSIGNORS[self.assignor](counts, members, self.topics)
        return found

    def line(self) -> str:
        """The case as JSON."""
        return json.dumps(self._asdict(), separators=(",", ":"))


def of_line(line: str) -> Case:
    """The case that `Case.line` has written."""
    found = json.loads(line)
    return Case(found["assignor"], found["topics"], {name: member(row) for name, row in found["members"].items()})


def member(row: list[Any]) -> GroupMember:
    topics, owned, *rest = row
    return GroupMember(tuple(topics), tuple(TopicPartition(*one) for one in owned), *rest)


def is_mistaken(case: Case, answer: dict[str, Any]) -> bool:
    """Whether Java's assignor has failed, or has given a partition to a member that does not subscribe to it."""
    return "error" in answer or any(
        topic not in case.members[name].topics for name, found in answer.items() for topic, _ in found
    )


def plain(assigned: Assigned) -> dict[str, list[list[Any]]]:
    """An answer as JSON has it, partitions in order."""
    return {name: sorted([*one] for one in partitions) for name, partitions in assigned.items()}


# --- groups that are made up -------------------------------------------------------------------


class _Group:
    """A group over several rounds, in which members come and leave and partitions are added."""

    def __init__(self, rng: Random, assignor: str) -> None:
        self.rng, self.assignor = rng, assignor
        self.generation = rng.choice([1, 5, 1000])
        self.has_racks, self.has_statics = rng.random() < 0.5, rng.random() < 0.4
        self.is_equal = rng.random() < 0.4
        if "sticky" in assignor and not self.is_equal:
            self.has_racks = False  # there `unequal` is not Java's
        self.racks = RACKS[: rng.randint(1, 4)]
        largest = rng.choice([1, 3, 7, 20])
        self.topics = {
            f"topic-{n}": self.partitions(rng.randint(1, largest)) for n in range(rng.choice([1, 2, 3, 6]))
        }
        if rng.random() < 0.4:  # of the same size and placement, as topics that are joined have
            first, *others = self.topics
            for other in others:
                self.topics[other] = list(self.topics[first])
        self.made = 0
        self.members: dict[str, GroupMember] = {}
        for _ in range(rng.choice([1, 2, 3, 5, 8, 14])):
            self.join()

    def partitions(self, count: int) -> list[list[str]]:
        if not self.has_racks:
            return [[] for _ in range(count)]
        return [self.rng.sample(self.racks, self.rng.randint(1, min(3, len(self.racks)))) for _ in range(count)]

    def subscribed(self) -> tuple[str, ...]:
        names = [*self.topics, "unknown"]
        if self.is_equal:
            return tuple(self.topics)
        found = self.rng.sample(names, self.rng.randint(1, len(names)))
        return tuple(found)

    def join(self) -> None:
        self.made += 1
        prefix = self.rng.choice(["consumer", "c", "größe", "\U0001f600", "\uffee"])
        instance = f"host-{self.rng.randrange(100)}-{self.made}" if self.has_statics else None
        self.members[f"{prefix}-{self.rng.randrange(10**4)}-{self.made}"] = GroupMember(
            self.subscribed(),
            instance_id=instance if self.rng.random() < 0.7 else None,
            rack_id=self.rng.choice([*RACKS, None]) if self.has_racks else None,
        )

    def turn(self) -> None:
        """Let the group become another one, with the partitions of the last round in its members' hands."""
        rng = self.rng
        assigned = self.case().ours()
        self.generation += 1
        for name, one in self.members.items():
            if rng.random() < 0.9:  # the others have missed this round
                owned = tuple(rng.sample(assigned[name], len(assigned[name])))
                self.members[name] = one._replace(owned=owned, generation=self.generation)
        for _ in range(rng.choice([0, 0, 1, 2])):
            if len(self.members) > 1:
                del self.members[rng.choice([*self.members])]
        for _ in range(rng.choice([0, 1, 1, 3])):
            self.join()
        if rng.random() < 0.2:
            topic = rng.choice([*self.topics])
            self.topics[topic] = [*self.topics[topic], *self.partitions(2)]
        if rng.random() < 0.1 and len(self.topics) > 1 and not ("sticky" in self.assignor and self.has_racks):
            del self.topics[rng.choice([*self.topics])]
        if rng.random() < 0.2:
            name = rng.choice([*self.members])
            self.members[name] = self.members[name]._replace(topics=self.subscribed())
        if rng.random() < 0.25:
            self.lie()

    def lie(self) -> None:
        """Let a member own what others own too, or what there is not, by its own or another generation."""
        rng = self.rng
        name = rng.choice([*self.members])
        everything = [TopicPartition(topic, n) for topic, racks in self.topics.items() for n in range(len(racks))]
        everything += [TopicPartition("gone", 0)]
        owned = rng.sample(everything, rng.randint(1, min(6, len(everything))))
        generation = rng.choice([-1, 0, self.generation - 1, self.generation, self.generation, self.generation + 1])
        self.members[name] = self.members[name]._replace(owned=tuple(owned), generation=generation)

    def case(self) -> Case:
        return Case(self.assignor, dict(self.topics), {name: self.said(one) for name, one in self.members.items()})

    def said(self, one: GroupMember) -> GroupMember:
        """What the member says when it joins."""
        if self.assignor == "sticky" and (one.owned or one.generation >= 0):
            # The client of an eager member has revoked all before it joins; its generation stands in both places.
            old = self.rng.random() < 0.05
            return one._replace(owned=(), user_data=encode_sticky(one.owned, one.generation, 0 if old else 1).hex())
        if self.assignor == "cooperative-sticky" and one.generation >= 0:
            data = encode_cooperative(one.generation).hex()
            old = self.rng.random() < 0.05  # version 1 of subscriptions
            return one._replace(generation=-1 if old else one.generation, user_data=data)
        return one


def sayings(seed: int, count: int) -> list[GroupMember]:
    """What some members of made-up groups say, user data in hex: for the bytes."""
    rng = Random(seed)
    found = [one for case in cases(seed, count, ["cooperative-sticky"]) for one in case.members.values()]
    return rng.sample(found, count)


def in_bytes(member: GroupMember) -> list[str]:
    """All that our encoders make of it, in hex, in the order of Assignors.java."""
    data = None if member.user_data is None else bytes.fromhex(member.user_data)
    said = member._replace(user_data=data)
    written = [encode_subscription(said, version) for version in range(4)]
    written += [encode_assignment(member.owned, data, version) for version in range(4)]
    written += [encode_sticky(member.owned, member.generation), encode_cooperative(member.generation)]
    return [one.hex() for one in written]


def are_javas(saying: GroupMember, answer: list[str]) -> bool:
    """Whether our bytes are Java's; sticky's user data may have its topics in any order, as a HashMap has them."""
    ours, theirs = in_bytes(saying), [*answer]
    sticky_ours, sticky_theirs = (
        decode_sticky(bytes.fromhex(ours.pop(8))),
        decode_sticky(bytes.fromhex(theirs.pop(8))),
    )
    assert sticky_ours is not None
    assert sticky_theirs is not None
    same = sorted(sticky_ours[0]) == sorted(sticky_theirs[0]) and sticky_ours[1] == sticky_theirs[1]
    return same and ours == theirs


def cases(seed: int, count: int, assignors: Iterable[str] = tuple(ASSIGNORS)) -> Iterator[Case]:
    """Make up some cases; those of one group follow each other."""
    rng = Random(seed)
    made = 0
    while True:
        for assignor in assignors:
            group = _Group(rng, assignor)
            for _ in range(rng.randint(1, 5)):
                yield group.case()
                made += 1
                if made == count:
                    return
                group.turn()


# --- Java --------------------------------------------------------------------------------------


def ask_java(lines: Iterable[str], jars: Path | None = None) -> list[Any]:
    """The answer of Kafka's Java client to each line."""
    program = Path(__file__).with_name("Assignors.java")
    done = subprocess.run(
        [java(), "-Xmx512m", "-cp", f"{jars or fetch()}/*", str(program)],
        input="".join(f"{line}\n" for line in lines),
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def load() -> list[tuple[Case, dict[str, list[list[Any]]]]]:
    """The cases of the fixture with Java's answers."""
    return [(of_line(asked), answer) for asked, answer in _rows() if "assignor" in json.loads(asked)]


def load_bytes() -> list[tuple[GroupMember, list[str]]]:
    """The sayings of the fixture with Java's bytes."""
    found = [(json.loads(asked), answer) for asked, answer in _rows()]
    return [(member(asked["bytes"]), answer) for asked, answer in found if "bytes" in asked]


def _rows() -> list[tuple[str, Any]]:
    lines = FIXTURE.read_text(encoding="utf-8").splitlines()
    return [(asked, json.loads(answer)) for asked, answer in zip(lines[::2], lines[1::2], strict=True)]


def line_of_bytes(saying: GroupMember) -> str:
    """What asks Java for the bytes of a saying."""
    return json.dumps({"bytes": saying}, separators=(",", ":"))


def main() -> None:
    """Write the fixture: a line for each case, with the line of its answer below it."""
    lines = [case.line() for case in cases(19, 400)] + [line_of_bytes(one) for one in sayings(19, 20)]
    answers = ask_java(lines)
    with FIXTURE.open("w", encoding="utf-8") as file:
        for line, answer in zip(lines, answers, strict=True):
            if isinstance(answer, dict) and is_mistaken(of_line(line), answer):
                continue
            ordered = answer
            if isinstance(answer, dict):
                ordered = {name: sorted(partitions) for name, partitions in sorted(answer.items())}
            file.write(f"{line}\n{json.dumps(ordered, separators=(',', ':'))}\n")
    print(f"{FIXTURE}: {len(lines)} cases")


if __name__ == "__main__":
    main()
