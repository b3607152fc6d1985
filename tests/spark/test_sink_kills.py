"""The sink is killed at six points, over and over, and every row is in the topic exactly once.

Two queries write one topic. Each life of a query goes on behind its checkpoint and is killed at a step that
chance has chosen; the next one begins with the same batch, as Spark does. In the end what a committed reader finds
is held against what was written: nothing lost, nothing twice, each key's rows in their order, and nothing left
staged.

LOGSTORE_KILLS sets the number of kills at each point. A SIGKILL keeps the page cache: what a power cut does is
asked of the store's side (`tests/store`).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.store import commit_client
from logstore.store.commit.staged_writer import Manifest
from tests.spark import sinks
from tests.spark.killed_sink import STEPS

KILLS = int(os.environ.get("LOGSTORE_KILLS", "50"))
ROOT = Path(__file__).resolve().parent.parent.parent
QUERIES = ("one", "other")

pytestmark = [pytest.mark.crash, pytest.mark.row("U3", "D5")]


class Server:
    """The process whose forks are killed."""

    def __init__(self) -> None:
        paths = [str(ROOT / "src"), str(ROOT), *sys.path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.killed_sink"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def live(self, orders: dict[str, Any]) -> bool:
        """One life; whether it was killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(orders) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        assert code in (0, -9), "a life has failed; what it said is on standard error"
        return code == -9

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


class Trial:
    """One store, two queries that write it, and the lives of both."""

    def __init__(self, directory: Path, server: Server, point: str, bug: str | None = None) -> None:
        self.root = directory / "store"
        self.server = server
        self.rng = random.Random(point)
        self.orders = {"root": str(self.root), "point": point, "bug": bug}
        self.directory = directory
        self.last = dict.fromkeys(QUERIES, -1)
        with logstore.open(self.root, environ={}) as store:
            store.create_topic("t", partitions=3)

    def live(self, query: str, steps: int) -> bool:
        checkpoint = self.directory / query
        return self.server.live(
            {
                **self.orders,
                "query": query,
                "checkpoint": str(checkpoint),
                "steps": steps,
                "last_batch": self.last[query],
            }
        )

    def run(self, kills: int) -> None:
        """Kill so many lives, and let both queries come through."""
        for batch in (0, 1):  # the first makes what the others find
            self.last["one"] = batch
            assert not self.live("one", 0)
        most = int((self.directory / "one.seen").read_text())
        assert most, "nothing counts as a step at this point"
        for _ in range(kills):
            query = self.rng.choice(QUERIES)
            # One batch more than it is sure to be killed in, now and then.
            self.last[query] = self.done(query) + self.rng.choice((1, 1, 2))
            steps = self.rng.randint(1, most)
            if not self.live(query, steps):
                # A batch that was in already has fewer steps than a new one.
                self.last[query] += 1
                # Looks for an answer are steps too, and how many there are is a matter of time; two are sure.
                sure = min(most, 2) if self.orders["point"] == "mid-request" else most
                assert self.live(query, self.rng.randint(1, sure)), "a new batch has so many steps"
        for query in QUERIES:
            self.last[query] = self.done(query) + 2
            assert not self.live(query, 0)

    def done(self, query: str) -> int:
        """The last batch in the query's checkpoint."""
        checkpoint = self.directory / query
        return int(checkpoint.read_text()) if checkpoint.exists() else -1

    def check(self, others: Iterable[bytes] = ()) -> None:
        """``others`` is what other writers have written."""
        expected = Counter(others)
        expected.update(
            value
            for query in QUERIES
            for value in sinks.Query(self.root, query=query, topic="t").expected(range(self.last[query] + 1))
        )
        with logstore.open(self.root, read_only=True, environ={}) as store:
            records = [
                (record.partition, record.key, record.value)
                for record in store.topic("t").scan(isolation="read_committed")
            ]
        found = Counter(value for _, _, value in records)
        assert not expected - found, f"lost: {sorted(expected - found)[:5]}"
        assert not found - expected, f"twice: {sorted(found - expected)[:5]}"
        for query in QUERIES:
            name = query.encode()
            order: dict[Any, list[tuple[int, ...]]] = {}
            for partition, key, value in records:
                writer, *numbers = value.split()
                if writer == name:
                    batch, task, row = map(int, numbers)
                    order.setdefault((partition, key, task), []).append((batch, row))
            assert all(rows == sorted(rows) for rows in order.values())
        left = sinks.staged_in(self.root)
        assert not left, f"left staged: {left[:5]}"


@pytest.mark.parametrize("point", [point for point in STEPS if point != "mid-request"])
def test_every_row_is_there_once_whatever_is_killed(ram_path: Path, server: Server, point: str) -> None:
    trial = Trial(ram_path, server, point)
    trial.run(KILLS)
    trial.check()


@pytest.mark.parametrize("point", ["mid-write", "after-write", "mid-request", "after-marker", "during-abort"])
def test_so_it_is_where_another_process_writes_the_store(ram_path: Path, server: Server, point: str) -> None:
    trial = Trial(ram_path, server, point)
    with logstore.open(trial.root, environ={}) as store:
        topic = store.topic("t")
        for number in range(3):
            topic.append(b"owner %d" % number)
        trial.run(KILLS // 3)
        # A request of a killed life may be in hand: the owner carries out one after the other, this one last.
        commit_client.commit(trial.root, Manifest("last", 0, "at_least_once", ()), timeout_s=60)
        topic.append(b"owner 3")
    trial.check(others=[b"owner %d" % number for number in range(4)])


@pytest.mark.parametrize(
    ("bug", "point", "said"),
    [
        ("forgets", "after-marker", "^twice: "),
        ("no-abort", "mid-commit", "^lost: "),
        ("no-sweep", "after-write", "^left staged: "),
    ],
)
def test_a_planted_bug_is_found(ram_path: Path, server: Server, bug: str, point: str, said: str) -> None:
    trial = Trial(ram_path, server, point, bug)

    def find() -> None:
        trial.run(5)
        trial.check()

    with pytest.raises(AssertionError, match=said):
        find()
