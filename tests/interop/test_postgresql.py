"""Offsets in PostgreSQL: fenced across connections, and exact over lives that end at any statement."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import logstore
from logstore import DatabaseOffsets
from logstore.errors import GroupFencedError, NoTransactionError
from logstore.records import TopicPartition

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.row("C13"),
    pytest.mark.row("X3", part="PostgreSQL"),
]

A = TopicPartition("payments", 0)
RECORDS, ROUNDS = 200, 1000


def _programs() -> Path:
    """The folder with initdb, pg_ctl and postgres, which Debian keeps out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    if path is None:
        pytest.fail("make interop needs PostgreSQL (apt install postgresql); there is no initdb", pytrace=False)
    return Path(path).parent


@pytest.fixture(scope="module")
def socket_directory() -> Iterator[Path]:
    """A server of its own, reached by a socket; it refuses to run as root, so it runs as another user."""
    programs = _programs()
    user = pwd.getpwnam("postgres" if "postgres" in {each.pw_name for each in pwd.getpwall()} else "nobody")
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    # Not below pytest's own folder, into which only we may look; and short, as the name of a socket has to be.
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        place = Path(name)
        if as_user:
            os.chown(place, user.pw_uid, user.pw_gid)
        data = place / "data"
        options = f"-k {place} -c listen_addresses= -c fsync=off"
        commands = [
            [programs / "initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync"],
            [programs / "pg_ctl", "-D", data, "-w", "-l", place / "log", "-o", options, "start"],
        ]
        for command in commands:
            subprocess.run(
                command,
                cwd=place,
                env={"PATH": os.environ["PATH"]},
                stdout=subprocess.DEVNULL,
                check=True,
                **as_user,
            )
        try:
            yield place
        finally:
            stop = [programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
            subprocess.run(stop, cwd=place, stdout=subprocess.DEVNULL, check=True, **as_user)


@pytest.fixture
def connect(socket_directory):
    psycopg = pytest.importorskip("psycopg", reason="make interop needs psycopg (pip install psycopg[binary])")
    connections = []

    def connected():
        connections.append(psycopg.connect(host=str(socket_directory), user="tests", dbname="postgres"))
        return connections[-1]

    with connected() as database:
        database.execute("DROP TABLE IF EXISTS logstore_offsets, seen")
        database.execute("CREATE TABLE seen (place INTEGER, number INTEGER)")
        DatabaseOffsets(database, "billing").create_table()
    yield connected
    for connection in connections:
        connection.close()


@pytest.fixture
def store(tmp_path):
    with logstore.open(tmp_path) as store:
        topic = store.create_topic("payments", 2)
        for partition in (0, 1):
            topic.append_many([b"%d" % n for n in range(RECORDS)], partition=partition)
        yield store


def consumer_of(store):
    consumer = store.consumer(auto_offset_reset="earliest")
    consumer.assign_topics(["payments"])
    return consumer


def apply(cursor, records):
    cursor.executemany("INSERT INTO seen VALUES (%s, %s)", [(r.partition, int(r.value)) for r in records])


def seen(database):
    return Counter(database.execute("SELECT place, number FROM seen").fetchall())


WANTED = Counter((place, n) for place in (0, 1) for n in range(RECORDS))


def finish(store, database):
    consumer, offsets = consumer_of(store), DatabaseOffsets(database, "billing")
    offsets.claim(consumer)
    database.commit()
    while records := consumer.poll(max_records=50):
        with offsets.transaction(consumer) as cursor:
            apply(cursor, records)


def test_a_thousand_lives_that_end_at_any_step_count_exactly(store, connect):
    rng = random.Random(17)
    steps = Counter()
    for _ in range(ROUNDS):
        with contextlib.closing(connect()) as database:
            cut = rng.choice(["claimed", "effects", "saved", "committed"])
            steps[cut] += 1
            consumer, offsets = consumer_of(store), DatabaseOffsets(database, "billing")
            offsets.claim(consumer)
            if cut == "claimed":
                continue
            database.commit()
            records = consumer.poll(max_records=1)
            cursor = database.cursor()
            apply(cursor, records)
            if cut == "effects":
                continue
            offsets.save(cursor, consumer)
            if cut == "saved":
                continue
            database.commit()
    assert min(steps.values()) > 200
    database = connect()
    finish(store, database)
    assert seen(database) == WANTED


def test_a_second_claim_fences_the_first(store, connect):
    one, two = connect(), connect()
    first, first_offsets = consumer_of(store), DatabaseOffsets(one, "billing")
    first_offsets.claim(first)
    one.commit()
    records = first.poll(max_records=10)
    second, second_offsets = consumer_of(store), DatabaseOffsets(two, "billing")
    assert second_offsets.claim(second)[A] == 0
    two.commit()
    cursor = one.cursor()
    apply(cursor, records)
    with pytest.raises(GroupFencedError):
        first_offsets.save(cursor, first)
    one.rollback()
    finish(store, two)
    assert seen(two) == WANTED


def test_a_connection_in_autocommit_mode_keeps_both_together_too(store, connect):
    database, beside = connect(), connect()
    database.autocommit = beside.autocommit = True
    consumer, offsets = consumer_of(store), DatabaseOffsets(database, "billing")
    offsets.claim(consumer)
    assert DatabaseOffsets(beside, "billing").load()[A] == 0
    cursor = database.cursor()
    with pytest.raises(NoTransactionError):
        offsets.save(cursor, consumer)
    for fails in (True, False):
        with contextlib.suppress(RuntimeError), offsets.transaction(consumer) as cursor:
            apply(cursor, consumer.poll(max_records=50))
            assert not seen(beside)
            if fails:
                raise RuntimeError("in the middle")
    assert sum(seen(beside).values()) == sum(DatabaseOffsets(beside, "billing").load().values()) == 50
    # A transaction of the driver's own is one, too.
    with database.transaction():
        apply(database.cursor(), consumer.poll(max_records=50))
        offsets.save(database.cursor(), consumer)
        assert sum(seen(beside).values()) == 50
    finish(store, database)
    assert seen(database) == WANTED


def test_a_claim_waits_for_the_transaction_that_is_saving(store, connect):
    """The row's lock: who claims meanwhile begins behind what was being saved, or before it if that is undone."""
    import threading

    one, two = connect(), connect()
    for commits in (True, False):
        first, first_offsets = consumer_of(store), DatabaseOffsets(one, "billing")
        begin = first_offsets.claim(first)[A]
        one.commit()
        cursor = one.cursor()
        first_offsets.save(cursor, {A: begin + 10})
        found = {}

        def claim(found=found):
            found.update(DatabaseOffsets(two, "billing").claim(consumer_of(store)))
            two.commit()

        claiming = threading.Thread(target=claim)
        claiming.start()
        while not one.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
            pass
        one.commit() if commits else one.rollback()
        claiming.join(60)
        assert found[A] == begin + 10 * commits
