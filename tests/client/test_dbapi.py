"""Offsets in the user's own database: each record counts exactly once, whatever dies in between."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

import logstore
from logstore import DatabaseOffsets
from logstore.errors import GroupFencedError, InvalidGroupError, InvalidOffsetError, NoOffsetError, NotAssignedError
from logstore.records import TopicPartition
from logstore.testing import ManualClock

pytestmark = [pytest.mark.row("C13"), pytest.mark.row("X3", part="SQLite")]

A, B = TopicPartition("payments", 0), TopicPartition("payments", 1)
RECORDS = 300


@pytest.fixture
def store(tmp_path):
    with logstore.open(tmp_path / "data", clock=ManualClock()) as store:
        store.create_topic("payments", 2)
        yield store


def fill(store, count):
    for partition in (0, 1):
        store.topic("payments").append_many([b"%d" % n for n in range(count)], partition=partition)


@contextlib.contextmanager
def connected(path):
    database = sqlite3.connect(path)
    try:
        database.execute("CREATE TABLE IF NOT EXISTS seen (place INTEGER, number INTEGER)")
        database.execute("CREATE TABLE IF NOT EXISTS total (amount INTEGER)")
        DatabaseOffsets(database, "billing").create_table()
        if not database.execute("SELECT COUNT(*) FROM total").fetchone()[0]:
            database.execute("INSERT INTO total VALUES (0)")
        database.commit()
        yield database
    finally:
        database.close()


@pytest.fixture
def database(tmp_path):
    with connected(tmp_path / "effects.db") as database:
        yield database


def consumer_of(store, **settings):
    consumer = store.consumer(auto_offset_reset="earliest", **settings)
    consumer.assign_topics(["payments"])
    return consumer


def claimed(store, database, group="billing"):
    consumer, offsets = consumer_of(store), DatabaseOffsets(database, group)
    offsets.claim(consumer)
    database.commit()
    return consumer, offsets


def apply(cursor, records):
    for record in records:
        cursor.execute("INSERT INTO seen VALUES (?, ?)", (record.partition, int(record.value)))
        cursor.execute("UPDATE total SET amount = amount + ?", (int(record.value),))


def effects(database):
    (amount,) = database.execute("SELECT amount FROM total").fetchone()
    return Counter(database.execute("SELECT place, number FROM seen").fetchall()), amount


def expected(count):
    return Counter((place, n) for place in (0, 1) for n in range(count)), 2 * sum(range(count))


def test_offsets_and_effects_are_committed_together(store, database):
    fill(store, 20)
    consumer, offsets = claimed(store, database)
    with offsets.transaction(consumer) as cursor:
        apply(cursor, consumer.poll(max_records=7))
    again, offsets = claimed(store, database)
    assert (again.position(A), again.position(B)) == (7, 0)
    assert offsets.load() == {A: 7, B: 0}
    assert offsets.load([B, ("other", 0)]) == {B: 0}
    while records := again.poll():
        with offsets.transaction(again) as cursor:
            apply(cursor, records)
    assert effects(database) == expected(20)
    # Nothing of this is kept by the store.
    assert store.offsets.groups() == []


def test_an_error_takes_back_both_and_the_records_come_again(store, database):
    fill(store, 10)
    consumer, offsets = claimed(store, database)

    def fail():
        with offsets.transaction(consumer) as cursor:
            apply(cursor, consumer.poll(max_records=4))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert effects(database) == (Counter(), 0)
    while records := consumer.poll(max_records=3):
        with offsets.transaction(consumer) as cursor:
            apply(cursor, records)
    assert effects(database) == expected(10)


def test_the_last_claim_has_the_partitions(store, database, tmp_path):
    fill(store, 10)
    first, first_offsets = claimed(store, database)
    records = first.poll(max_records=4)
    with connected(tmp_path / "effects.db") as other:
        second, second_offsets = claimed(store, other)
        with second_offsets.transaction(second) as cursor:
            apply(cursor, second.poll(max_records=6))
        cursor = database.cursor()
        apply(cursor, records)
        with pytest.raises(GroupFencedError, match="claimed by another") as caught:
            first_offsets.save(cursor, first)
        database.rollback()
        assert caught.value.code == 22
        # The one who lost finds out before its first transaction, too.
        with pytest.raises(GroupFencedError):
            first_offsets.save(database.cursor(), {A: 0})
        database.rollback()
        while records := second.poll():
            with second_offsets.transaction(second) as cursor:
                apply(cursor, records)
    assert effects(database) == expected(10)


def test_planted_without_a_fence_two_consumers_count_twice(store, database, monkeypatch):
    """The test above can fail: the same with a save that does not compare."""
    monkeypatch.setattr(DatabaseOffsets, "_stored", lambda *_: True)
    fill(store, 10)
    first, first_offsets = claimed(store, database)
    second, second_offsets = claimed(store, database)
    for consumer, offsets in ((first, first_offsets), (second, second_offsets)):
        with offsets.transaction(consumer) as cursor:
            apply(cursor, consumer.poll(max_records=4))
    counts, _ = effects(database)
    assert max(counts.values()) == 2


def test_groups_and_tables_are_apart(store, database):
    fill(store, 10)
    consumer, offsets = claimed(store, database)
    offsets.save(database.cursor(), {A: 3})
    other = DatabaseOffsets(database, "billing", table="elsewhere")
    other.create_table()
    assert other.load() == {}
    assert DatabaseOffsets(database, "audit").load() == {}
    assert offsets.load() == {A: 3, B: 0}
    assert consumer.position(A) == 0


def test_a_topic_that_was_made_again_begins_again(store, database):
    fill(store, 10)
    consumer, offsets = claimed(store, database)
    offsets.save(database.cursor(), {A: 9, B: 9})
    database.commit()
    store.delete_topic("payments")
    store.create_topic("payments", 2)
    fill(store, 3)
    again, offsets = claimed(store, database)
    assert (again.position(A), offsets.load()) == (0, {A: 0, B: 0})
    offsets.save(database.cursor(), {A: 2})
    database.commit()
    assert claimed(store, database)[0].position(A) == 2
    consumer.close()


def test_where_a_group_begins_is_written_down_by_the_claim(store, database):
    fill(store, 5)
    consumer = store.consumer(auto_offset_reset="latest")
    consumer.assign_topics(["payments"])
    DatabaseOffsets(database, "late").claim(consumer)
    database.commit()
    fill(store, 2)  # after the claim, and before anything was saved
    again = store.consumer(auto_offset_reset="latest")
    again.assign_topics(["payments"])
    assert DatabaseOffsets(database, "late").claim(again) == {A: 5, B: 5}
    assert len(again.poll()) == 4


def test_what_cannot_be_stored_is_refused(store, database):
    _, offsets = claimed(store, database)
    for offset in (-1, 2**63, 1.5, None):
        with pytest.raises(InvalidOffsetError):
            offsets.save(database.cursor(), {A: offset})
    with pytest.raises(GroupFencedError, match="never claimed"):
        offsets.save(database.cursor(), {TopicPartition("payments", 7): 1})
    with pytest.raises(NotAssignedError):
        offsets.claim(store.consumer())
    strict = store.consumer(auto_offset_reset="none")
    strict.assign([A])
    with pytest.raises(NoOffsetError):
        DatabaseOffsets(database, "strict").claim(strict)
    for table in ("offsets; DROP TABLE seen", "", "a.b.c", "1st"):
        with pytest.raises(ValueError, match="identifier"):
            DatabaseOffsets(database, "billing", table=table)
    with pytest.raises(InvalidGroupError):
        DatabaseOffsets(database, "")
    with pytest.raises(ValueError, match="paramstyle"):
        DatabaseOffsets(database, "billing", paramstyle="named")
    with pytest.raises(ValueError, match="paramstyle"):
        DatabaseOffsets(object(), "billing")  # type: ignore[arg-type]
    assert offsets.load() == {A: 0, B: 0}


@pytest.mark.parametrize(
    ("style", "marked"), [("numeric", "(:1, :2)"), ("format", "(%s, %s)"), ("qmark", "(?, ?)")]
)
def test_parameters_are_marked_as_the_driver_wants_them(database, style, marked):
    class Recorder:
        rowcount = 1

        def execute(self, statement, parameters=()):
            self.statement = statement

    cursor = Recorder()
    DatabaseOffsets(database, "g", paramstyle=style)._run(cursor, "VALUES (?, ?)", (1, 2))
    assert cursor.statement == f"VALUES {marked}"


@pytest.mark.parametrize("rowcount", [0, -1])
def test_a_driver_that_does_not_count_unchanged_rows_is_understood(store, database, monkeypatch, rowcount):
    consumer, offsets = claimed(store, database)
    run = DatabaseOffsets._run

    def forgetful(self, cursor, statement, parameters):
        changed = run(self, cursor, statement, parameters)
        return rowcount if statement.startswith("UPDATE") else changed

    monkeypatch.setattr(DatabaseOffsets, "_run", forgetful)
    offsets.save(database.cursor(), {A: 0})
    offsets._claims[A] -= 1
    with pytest.raises(GroupFencedError):
        offsets.save(database.cursor(), {A: 0})
    consumer.close()


# --- crashes ---------------------------------------------------------------------------------------


def live_and_die(store, path, lives, *, apart=False):
    """Consume in many short lives, each ended at a step that chance picks; the effects of all, and the steps.

    ``apart`` plants the bug: effects and offsets are committed one after the other.
    """
    rng = random.Random(13)
    steps = Counter()
    for _ in range(lives):
        with connected(path) as database:
            # A process dies here and not the machine, so nothing need wait for the disk.
            database.execute("PRAGMA synchronous = OFF")
            cut = rng.choice(["claimed", "polled", "effects", "saved", "committed"])
            steps[cut] += 1
            consumer, offsets = consumer_of(store), DatabaseOffsets(database, "billing")
            offsets.claim(consumer)
            if cut == "claimed":
                continue
            database.commit()
            records = consumer.poll(max_records=rng.randrange(1, 4))
            if cut == "polled":
                continue
            cursor = database.cursor()
            apply(cursor, records[: len(records) if cut != "effects" else rng.randrange(len(records) + 1)])
            if cut == "effects":
                continue
            if apart:
                database.commit()
            offsets.save(cursor, consumer)
            if cut == "saved":
                continue
            database.commit()
    with connected(path) as database:
        consumer, offsets = claimed(store, database)
        while records := consumer.poll():
            with offsets.transaction(consumer) as cursor:
                apply(cursor, records)
        return effects(database), steps


@pytest.mark.crash
def test_a_thousand_crashes_between_effect_and_commit_count_nothing_twice(store, tmp_path):
    fill(store, RECORDS)
    found, steps = live_and_die(store, tmp_path / "effects.db", 1000)
    assert min(steps.values()) > 150
    assert found == expected(RECORDS)


@pytest.mark.crash
def test_planted_two_transactions_instead_of_one_are_found(store, tmp_path):
    fill(store, 20)
    (counts, _), _ = live_and_die(store, tmp_path / "effects.db", 30, apart=True)
    assert max(counts.values()) > 1


_VICTIM = """
    import os, sqlite3, sys
    import logstore
    from logstore import DatabaseOffsets
    data, path, die_after = sys.argv[1], sys.argv[2], int(sys.argv[3])
    database = sqlite3.connect(path)
    with logstore.open(data, read_only=True) as store:
        consumer = store.consumer(auto_offset_reset="earliest")
        consumer.assign_topics(["payments"])
        offsets = DatabaseOffsets(database, "billing")
        offsets.claim(consumer)
        database.commit()
        statements = 0
        def count(statement):
            global statements
            statements += 1
            if statements == die_after:
                os.kill(os.getpid(), 9)
        database.set_trace_callback(count)
        while records := consumer.poll(max_records=5):
            with offsets.transaction(consumer) as cursor:
                for record in records:
                    cursor.execute("INSERT INTO seen VALUES (?, ?)", (record.partition, int(record.value)))
                    cursor.execute("UPDATE total SET amount = amount + ?", (int(record.value),))
"""


@pytest.mark.crash
@pytest.mark.slow
def test_processes_that_are_killed_at_any_statement_count_nothing_twice(store, tmp_path):
    """Real processes, killed by SIGKILL in front of a statement: begin, effect, save or commit."""
    fill(store, 60)
    with connected(tmp_path / "effects.db"):
        pass
    environment = {**os.environ, "PYTHONPATH": str(Path(logstore.__file__).parent.parent)}
    arguments = [
        sys.executable,
        "-c",
        textwrap.dedent(_VICTIM),
        str(tmp_path / "data"),
        str(tmp_path / "effects.db"),
    ]
    statuses = []
    for die_after in (1, 2, 11, 12, 13, 14, 15, 16, 29, 41, 100, 0):
        done = subprocess.run([*arguments, str(die_after)], env=environment, check=False, timeout=300)
        statuses.append(done.returncode)
    assert statuses[-1] == 0
    assert statuses.count(-signal.SIGKILL) >= 8
    with connected(tmp_path / "effects.db") as database:
        assert effects(database) == expected(60)
