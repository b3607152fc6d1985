"""The recipes of examples/: copies are counted over processes that are killed, outputs are made again."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

import logstore
from examples import at_least_once, at_most_once, exactly_once, key_value_service, replay_after_a_bug
from logstore.testing import ManualClock
from tests.kit.logs import finish_rolls

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = (str(ROOT), str(Path(logstore.__file__).parents[1]))
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)}
COUNT = 60

#: A life of one recipe: effects go to a file by one write each, or into the database; a kill comes at a given one.
_PROGRAM = """
    import os, signal, sqlite3, sys
    import logstore
    from examples import {recipe}
    data, effects, place, number = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    seen = 0

    def die(where):
        if where == place and seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def process(*arguments):
        global seen
        seen += 1
        die("before")
        record = arguments[-1]
        line = b"%d %d\\n" % (record.partition, record.offset)
        if len(arguments) == 2:
            arguments[0].execute("INSERT INTO effects VALUES (?)", (line,))
        else:
            os.write(out, line)
        die("after")

    with logstore.open(data) as store:
        if {recipe}.__name__.endswith("exactly_once"):
            database = sqlite3.connect(effects)
            {recipe}.consume(store, database, process, max_records=4)
        else:
            out = os.open(effects, os.O_WRONLY | os.O_APPEND)
            {recipe}.consume(store, process, max_records=4)
"""


def fill(directory, name):
    with logstore.open(directory) as store:
        topic = store.create_topic(name, 2)
        for partition in (0, 1):
            topic.append_many([b"%d" % n for n in range(COUNT // 2)], partition=partition)


def lives(recipe, directory, effects, kills):
    """Processes one after the other, each killed at its own place, and a last one that comes to the end."""
    code = textwrap.dedent(_PROGRAM).format(recipe=recipe)
    for place, number in [*kills, ("never", 0)]:
        arguments = [sys.executable, "-c", code, str(directory), str(effects), place, str(number)]
        done = subprocess.run(arguments, env=ENVIRONMENT, check=False, timeout=300)
        assert done.returncode == (0 if place == "never" else -signal.SIGKILL)


def some_kills(seed):
    rng = random.Random(seed)
    # Short lives, so that the records last for all of them.
    return [(rng.choice(["before", "after"]), rng.randrange(1, 7)) for _ in range(7)]


def copies(lines):
    return Counter(tuple(map(int, line.split())) for line in lines)


WANTED = Counter((partition, offset) for partition in (0, 1) for offset in range(COUNT // 2))


@pytest.mark.crash
@pytest.mark.row("C16")
def test_at_most_once_never_repeats_and_loses_what_was_in_hand(tmp_path):
    fill(tmp_path / "data", at_most_once.TOPIC)
    effects = tmp_path / "effects"
    effects.touch()
    kills = some_kills(1)
    lives("at_most_once", tmp_path / "data", effects, kills)
    found = copies(effects.read_bytes().splitlines())
    assert set(found.values()) == {1}
    lost = WANTED - found
    # A poll of four at most for each kill, and here some were lost: the test shows what the recipe costs.
    assert 0 < lost.total() <= 4 * len(kills)
    assert not found - WANTED


@pytest.mark.crash
@pytest.mark.row("C16", "C15", "V7")
def test_at_least_once_never_loses_and_repeats_what_was_in_hand(tmp_path):
    fill(tmp_path / "data", at_least_once.TOPIC)
    effects = tmp_path / "effects"
    effects.touch()
    kills = some_kills(2)
    lives("at_least_once", tmp_path / "data", effects, kills)
    found = copies(effects.read_bytes().splitlines())
    assert not WANTED - found
    assert set(found) == set(WANTED)
    assert 0 < (found - WANTED).total() <= 4 * len(kills)


@pytest.mark.crash
@pytest.mark.row("C16", "C13")
def test_exactly_once_neither_loses_nor_repeats(tmp_path):
    fill(tmp_path / "data", exactly_once.TOPIC)
    effects = tmp_path / "effects.db"
    with closing(sqlite3.connect(effects)) as database:
        database.execute("CREATE TABLE effects (line BLOB)")
        database.commit()
    lives("exactly_once", tmp_path / "data", effects, some_kills(3))
    with closing(sqlite3.connect(effects)) as database:
        assert copies(line for (line,) in database.execute("SELECT line FROM effects")) == WANTED


@pytest.mark.row("C20")
def test_a_group_that_goes_back_in_time_makes_its_output_again(tmp_path):
    clock = ManualClock()
    rng = random.Random(5)
    with logstore.open(tmp_path, clock=clock) as store:
        topic = store.create_topic(replay_after_a_bug.TOPIC, 3)
        minutes = []
        for _ in range(300):
            minutes.append((clock.now_ms(), rng.choice([b"AA", b"UA", b"DL"]), rng.randrange(-30, 90)))
            topic.append(b"%d" % minutes[-1][2], key=minutes[-1][1])
            clock.advance(180_000)
        hour = replay_after_a_bug.HOUR_MS

        def wanted(change):
            output = {}
            for when, airline, amount in minutes:
                place = (when // hour, airline)
                output[place] = output.get(place, 0) + change(when, amount)
            return output

        rolled_out = minutes[120][0] // hour * hour
        output = {}
        # The old version was right until the new one came.
        assert replay_after_a_bug.run(store, output, replay_after_a_bug.wrong) == 300
        assert output == wanted(lambda _, amount: abs(amount))
        assert replay_after_a_bug.run(store, output, replay_after_a_bug.right) == 0
        replay_after_a_bug.go_back(store, output, rolled_out)
        again = replay_after_a_bug.run(store, output, replay_after_a_bug.right)
        assert again == sum(when >= rolled_out for when, *_ in minutes)
        assert output == wanted(lambda when, amount: amount if when >= rolled_out else abs(amount))


@pytest.mark.crash
@pytest.mark.row("M8")
def test_a_service_that_is_rebuilt_from_offset_0_stands_where_it_stood(tmp_path):
    """The live state after each change, held against one that is rebuilt from a copy of the directory."""
    import shutil

    rng = random.Random(6)
    with logstore.open(tmp_path / "live") as store:
        service = key_value_service.Service(store, ack="written")
        for step in range(400):
            key = b"k%d" % rng.randrange(30)
            service.set(key, None if rng.random() < 0.2 else rng.randbytes(8))
            if step % 80 == 79:
                copy = tmp_path / f"copy-{step}"
                finish_rolls()
                shutil.copytree(tmp_path / "live", copy, ignore=shutil.ignore_patterns("logstore.socket"))
                (copy / ".lock").unlink()
                with logstore.open(copy) as other:
                    assert other[key_value_service.TOPIC][0].log_start_offset == 0
                    assert key_value_service.Service(other).state == service.state
        assert len(service.state) > 10
    with logstore.open(tmp_path / "live") as store:
        assert key_value_service.Service(store).state == service.state


@pytest.mark.parametrize(
    ("recipe", "arguments", "wanted"),
    [
        ("at_most_once", [], "3 reminders"),
        ("at_least_once", [], "3 arrivals"),
        ("exactly_once", ["--database", "totals.db"], "[('ada', 25), ('bob', 12)]"),
        ("replay_after_a_bug", [], "2 records again: [-7, 12]"),
        ("key_value_service", ["set", "colour", "blue"], ""),
    ],
)
def test_each_recipe_runs_as_its_head_says(tmp_path, recipe, arguments, wanted):
    command = [sys.executable, "-W", "error", "-m", f"examples.{recipe}", "--directory", "data", *arguments]
    done = subprocess.run(
        command, env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert wanted in done.stdout
