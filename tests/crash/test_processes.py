"""Real processes on one directory: two writers, readers beside a writer, a forked child.

Every other process is an `Agent`: a Python that runs one line after another and answers each on a
pipe, so what one process does between two answers is ordered before what another is asked next.
Nothing sleeps: a reader waits in `read(timeout_s=...)`, the test waits on the pipes. Last, a clock
that goes back.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import sys
import textwrap

import pytest

from logstore import Log
from logstore.errors import DirectoryLockedError
from logstore.log import ProducerStamp
from logstore.log.formats import checkpoints
from logstore.testing import ManualClock
from tests.crash.histories import seeded
from tests.kit.inside import at_the_next_look
from tests.kit.logs import NOW_MS, log_files, open_log, tree, values_of

pytestmark = pytest.mark.crash

SETTINGS = {"segment_bytes": 600, "index_interval_bytes": 150}
PATIENCE_S = 300  #: no test waits that long unless it fails
ROUNDS = 12

PRELUDE = """
import json, os, random, sys
from logstore import Log
from logstore.log import Marker, ProducerStamp
from logstore.errors import ForkedError, LogstoreError, OffsetOutOfRangeError


def pairs(batches):
    return [(record.offset, record.value.decode()) for record in batches]


def scanned(log, **scan):
    return pairs(log.scan(**scan))


def tail(log, last, offset=0, isolation="read_uncommitted", max_bytes=400):
    '''What a reader sees up to the value `last`, in runs: it begins again where its offset is gone.'''
    runs = [[]]
    while not runs[-1] or runs[-1][-1][1] != last:
        try:
            batches = log.read(offset, isolation=isolation, timeout_s=PATIENCE_S, max_bytes=max_bytes)
        except OffsetOutOfRangeError:
            offset = log.log_start_offset
            runs.append([])
        else:
            runs[-1] += pairs(batches)
            offset = batches.next_offset
    return runs


def put(log, *values, **append):
    '''(offset, value) of each: acknowledged.'''
    result = log.append([value.encode() for value in values], **append)
    return list(zip(range(result.first_offset, result.last_offset + 1), values, strict=True))


def values(rng, number, tag=""):
    for n in range(rng.choice([1, 1, 2, 5])):
        yield f"{tag} {number:06d}.{n} " + "x" * rng.randrange(60)


def grow(log, seed, steps, last):
    '''Append only: [(offset, value)].'''
    rng = random.Random(seed)
    done = []
    for number in range(steps):
        done += put(log, *values(rng, number, last))
    return done + put(log, last)


def churn(log, seed, steps, last, cuts=True):
    '''Append, delete and, with `cuts`, truncate: [(offset, value)] of all that was ever there.'''
    rng = random.Random(seed)
    done, top = [], 0
    for number in range(steps):
        start, end = log.log_start_offset, log.log_end_offset
        top = max(top, end)
        dice = rng.random()
        if cuts and dice < 0.1:
            log.replica.truncate_to(rng.randrange(max(start, end - 25), end + 1))
        elif dice > 0.95:
            log.delete_before(rng.randrange(start, end + 1))
        else:
            done += put(log, *values(rng, number, last))
    while log.log_end_offset <= top:
        # A reader that had come further than the last cut waits there for what comes after.
        done += put(log, *values(rng, steps + len(done), last))
    return done + put(log, last)


sequences = dict.fromkeys(range(3), 0)


def transact(log, seed, steps, last):
    '''Three producers, committing and aborting: all acknowledged (offset, value), and the aborted values.'''
    rng = random.Random(seed)
    opened, done, gone = {}, [], []
    for number in range(steps):
        producer = rng.randrange(3)
        if producer in opened and rng.random() < 0.4:
            marker = rng.choice(list(Marker))
            log.replica.append_control(marker, producer_id=producer, producer_epoch=0)
            sent = opened.pop(producer)
            gone += sent if marker is Marker.ABORT else []
        elif rng.random() < 0.3:
            done += put(log, *values(rng, number, last))
        else:
            what = list(values(rng, number, last))
            done += put(log, *what, producer=ProducerStamp(producer, 0, sequences[producer], True))
            sequences[producer] += len(what)
            opened.setdefault(producer, []).extend(what)
    for producer in opened:
        log.replica.append_control(Marker.COMMIT, producer_id=producer, producer_epoch=0)
    return done + put(log, last), gone


def in_child(work):
    '''What `work` returns in a forked child of this process.'''
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(sink, json.dumps(answer).encode())
        os._exit(0)
    os.close(sink)
    with open(source, "rb") as pipe:
        data = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(data)


def refusals(tries):
    '''The name of the error of each call, or what it answered.'''
    found = {}
    for name, call in tries.items():
        try:
            found[name] = repr(call())
        except LogstoreError as error:
            found[name] = type(error).__name__
    return found
"""

LOOP = """
for line in sys.stdin:
    source = json.loads(line)
    try:
        try:
            code = compile(source, "asked", "eval")
        except SyntaxError:
            exec(source, globals())
            answer = ["ok", None]
        else:
            answer = ["ok", eval(code, globals())]
        text = json.dumps(answer, default=repr)
    except LogstoreError as error:
        text = json.dumps([type(error).__name__, str(error)])
    print(text, flush=True)
"""


class Refused(Exception):
    """An agent has raised an error of logstore's."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


class Agent:
    """Another process."""

    def __init__(self, path) -> None:
        script = f"PATIENCE_S = {PATIENCE_S}\n{PRELUDE}\n{LOOP}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self.begin(f"path = {str(path)!r}; settings = {SETTINGS!r}")
        self.answer()

    def begin(self, source: str) -> None:
        """Let it run a line; `answer` waits for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(textwrap.dedent(source)) + "\n")
        self.process.stdin.flush()

    def answer(self):
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process has died"
        kind, value = json.loads(line)
        if kind != "ok":
            raise Refused(kind, value)
        return value

    def do(self, source: str):
        self.begin(source)
        return self.answer()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Agents:
    """The processes of one test, on one partition."""

    def __init__(self, root) -> None:
        self.path = root / "t-0"
        self.all: list[Agent] = []

    def start(self, *sources: str) -> Agent:
        agent = Agent(self.path)
        self.all.append(agent)
        for source in sources:
            agent.do(source)
        return agent

    def writer(self) -> Agent:
        return self.start("log = Log.open(path, **settings)")

    def reader(self) -> Agent:
        return self.start("log = Log.open(path, read_only=True)")


@pytest.fixture
def agents(ram_path):
    made = Agents(ram_path)
    yield made
    for agent in made.all:
        agent.process.kill()
        agent.end()


def rows(answer) -> list[tuple]:
    return [tuple(row) for row in answer]


def check_runs(runs, acknowledged) -> None:
    """Every run is of acknowledged records alone, each at its own offset, without a gap and in order."""
    written = set(acknowledged)
    # Offsets are given again after a cut, so this is the order of the appends.
    order = {value: place for place, (_, value) in enumerate(acknowledged)}
    for run in runs:
        assert set(run) <= written
        for (offset, value), (following, next_value) in itertools.pairwise(run):
            assert following == offset + 1, run
            assert order[next_value] > order[value], run


# --- two writers ------------------------------------------------------------------------------


@pytest.mark.row("M6", part="one process")
def test_a_second_writer_is_refused_by_the_pid_of_the_first_and_changes_nothing(agents, ram_path):
    owner = agents.writer()
    owner.do("put(log, 'one', 'two')")
    before = tree(ram_path)
    other = agents.start()
    for name in ("t-0", "t-1", "other-7"):
        # Another partition too: the lock is the root's, as in Kafka.
        with pytest.raises(Refused, match=rf"locked by pid {owner.pid} .*read_only=True") as caught:
            other.do(f"Log.open(os.path.dirname(path) + '/{name}', **settings)")
        assert caught.value.kind == "DirectoryLockedError"
    with pytest.raises(DirectoryLockedError, match=f"pid {owner.pid} "):
        Log.open(agents.path)
    assert tree(ram_path) == before
    assert owner.do("put(log, 'three')") == [[2, "three"]]
    owner.do("log.close()")
    other.do("log = Log.open(path, **settings)")
    assert other.do("log.maintenance.was_clean")
    assert other.do("put(log, 'four')") == [[3, "four"]]
    with pytest.raises(Refused, match=f"locked by pid {other.pid} "):
        owner.do("Log.open(path, **settings)")


@pytest.mark.row("S20", part="killed processes")
def test_after_a_sigkill_of_the_owner_the_log_opens_at_once(agents):
    written = []
    for number in range(4):
        # The next process does not wait for a lease to end: the lock goes with the process.
        owner = agents.writer()
        assert not owner.do("log.maintenance.was_clean")
        assert rows(owner.do("scanned(log)")) == written
        written += rows(owner.do(f"grow(log, {number}, 20, 'last {number}')"))
        owner.kill()
    with Log.open(agents.path, **SETTINGS) as log:
        assert values_of(log) == [value.encode() for _, value in written]


# --- readers beside a writer ------------------------------------------------------------------


@pytest.mark.row("S18")
@pytest.mark.row("M6", part="one process")
def test_readers_see_each_step_of_a_writer_as_soon_as_it_is_acknowledged(agents):
    writer, readers = agents.writer(), [agents.reader() for _ in range(2)]
    rng = seeded("steps")
    known: list[tuple] = []
    start = 0
    for number in range(ROUNDS * 4):
        dice = rng.random()
        if dice < 0.6:
            known += rows(writer.do(f"put(log, *values(random.Random({rng.randrange(2**32)}), {number}))"))
        elif dice < 0.8:
            # A cut goes to the start of a batch; what is left is a prefix.
            end = writer.do(f"log.replica.truncate_to({rng.randrange(start, start + len(known) + 1)})")
            start = min(start, end)
            known = [row for row in known if row[0] < end]
        else:
            start = writer.do(f"log.delete_before({rng.randrange(start, start + len(known) + 1)})")
            known = [row for row in known if row[0] >= start]
            if start:
                with pytest.raises(Refused, match="OffsetOutOfRangeError"):
                    readers[0].do(f"log.read({start - 1})")
        end = known[-1][0] + 1 if known else writer.do("log.log_end_offset")
        for reader in readers:
            assert reader.do("(log.log_start_offset, log.log_end_offset)") == [start, end]
            assert rows(reader.do("scanned(log, max_bytes=200)")) == known
            with pytest.raises(Refused, match="OffsetOutOfRangeError"):
                reader.do(f"log.read({end + 1})")
        start = writer.do("log.log_start_offset")
        assert rows(writer.do("scanned(log)")) == known


@pytest.mark.row("M6", part="one process")
def test_several_readers_tail_through_rolls_and_see_exactly_what_was_acknowledged(agents):
    writer, readers = agents.writer(), [agents.reader() for _ in range(3)]
    written: list[tuple] = []
    for number in range(ROUNDS // 3):
        for size, reader in enumerate(readers):
            reader.begin(f"tail(log, 'last {number}', {len(written)}, max_bytes={1 + 400 * size})")
        new = rows(writer.do(f"grow(log, {number}, 300, 'last {number}')"))
        for reader in readers:
            assert [rows(run) for run in reader.answer()] == [new]
        written += new
    assert len(list(agents.path.glob("*.log"))) > 50
    assert [offset for offset, _ in written] == list(range(len(written)))


@pytest.mark.row("M6", part="one process")
def test_a_committed_reader_sees_what_was_committed_while_transactions_run(agents):
    writer, reader, committed = agents.writer(), agents.reader(), agents.reader()
    offset, aborted = 0, 0
    for number in range(ROUNDS // 3):
        reader.begin(f"tail(log, 'last {number}', {offset})")
        committed.begin(f"tail(log, 'last {number}', {offset}, 'read_committed')")
        written, gone = writer.do(f"transact(log, {number}, 200, 'last {number}')")
        written = rows(written)
        assert [rows(run) for run in reader.answer()] == [written]
        assert [rows(run) for run in committed.answer()] == [[row for row in written if row[1] not in set(gone)]]
        offset, aborted = written[-1][0] + 1, aborted + len(gone)
    assert aborted > 20
    # An undecided transaction is shown to neither, and to both once it is decided.
    writer.do("put(log, 'open', producer=ProducerStamp(7, 0, 0, True))")
    writer.do("put(log, 'behind')")
    assert committed.do(f"scanned(log, start={offset}, isolation='read_committed')") == []
    assert reader.do(f"scanned(log, start={offset})") == [[offset, "open"], [offset + 1, "behind"]]
    committed.begin(f"tail(log, 'behind', {offset}, 'read_committed')")
    writer.do("log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)")
    assert committed.answer() == [[[offset + 1, "behind"]]]


@pytest.mark.row("S18")
def test_a_reader_beside_deletion_goes_on_at_the_log_start_and_never_sees_garbage(agents):
    for seed in range(2):
        writer, readers = agents.writer(), [agents.reader() for _ in range(2)]
        for size, reader in enumerate(readers):
            reader.begin(f"tail(log, 'last {seed}', log.log_start_offset, max_bytes={1 + 400 * size})")
        begun = writer.do("scanned(log)")
        written = rows(begun) + rows(writer.do(f"churn(log, {seed}, 1000, 'last {seed}', cuts=False)"))
        for reader in readers:
            runs = [rows(run) for run in reader.answer()]
            check_runs(runs, written)
            # It only ever jumps forward, over what was deleted.
            offsets = [offset for run in runs for offset, _ in run]
            assert offsets == sorted(set(offsets))
            assert rows(reader.do("scanned(log)")) == rows(writer.do("scanned(log)"))
            reader.do("log.close()")
        writer.do("log.close()")


@pytest.mark.row("S18")
@pytest.mark.row("M6", part="one process")
def test_a_reader_beside_truncation_sees_no_garbage_and_then_what_came_after(agents):
    rng = seeded("churn")
    writer, readers = agents.writer(), [agents.reader() for _ in range(2)]
    written: list[tuple] = []
    for number in range(ROUNDS // 2):
        for size, reader in enumerate(readers):
            reader.begin(f"tail(log, 'last {number}', log.log_start_offset, max_bytes={1 + 1000 * size})")
        written = rows(writer.do("scanned(log)"))
        written += rows(writer.do(f"churn(log, {rng.randrange(2**32)}, 400, 'last {number}')"))
        for reader in readers:
            check_runs([rows(run) for run in reader.answer()], written)
            assert rows(reader.do("scanned(log)")) == rows(writer.do("scanned(log)"))


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("appended_again", [0, 30])
def test_a_cut_between_the_look_at_the_end_and_the_look_at_the_files_leaves_no_gap(
    ram_path, monkeypatch, read_only, appended_again
):
    """Once "nothing is there" was answered with the end of before the cut, and new records were stepped over."""
    with open_log(ram_path) as log:
        for n in range(10):
            log.append([b"old %d" % n * 20])
        reader = open_log(ram_path, read_only=True) if read_only else log

        def cut():
            log.replica.truncate_to(5)
            for n in range(appended_again):
                log.append([b"new %d" % n])

        at_the_next_look(monkeypatch, reader, cut)
        batches = reader.read(5)
        assert batches.values() == [b"new %d" % n for n in range(batches.next_offset - 5)]
        assert bool(batches) == bool(appended_again)
        reader.close()


@pytest.mark.row("M6", part="one process")
def test_a_reader_that_was_opened_before_the_first_record_sees_it(agents):
    writer, reader = agents.writer(), agents.reader()
    assert reader.do("(log.log_start_offset, log.log_end_offset, scanned(log))") == [0, 0, []]
    reader.begin("pairs(log.read(0, timeout_s=PATIENCE_S))")
    writer.do("put(log, 'first')")
    assert reader.answer() == [[0, "first"]]


@pytest.mark.parametrize("made", ["", checkpoints.PUBLISHED])
def test_a_reader_that_was_opened_while_its_writer_was_opening_follows_it(agents, made):
    """The segment is there before the published end is, and that before it holds anything."""
    agents.path.mkdir(parents=True)
    for name in ("00000000000000000000.log", checkpoints.RECOVERY, made or checkpoints.RECOVERY):
        (agents.path / name).touch()
    reader = agents.reader()
    assert reader.do("log.log_end_offset") == 0
    reader.begin("pairs(log.read(0, timeout_s=PATIENCE_S))")
    agents.writer().do("put(log, 'first')")
    assert reader.answer() == [[0, "first"]]


@pytest.mark.row("S20", part="killed processes")
def test_a_reader_outlives_its_writers_and_sees_the_records_of_the_next(agents):
    readers: list[Agent] = []
    known: list[tuple] = []
    for number in range(6):
        writer = agents.writer()
        if not readers:
            readers = [agents.reader() for _ in range(2)]
        readers[0].begin(f"tail(log, 'last {number}', {len(known)})")
        new = rows(writer.do(f"grow(log, {number}, 25, 'last {number}')"))
        assert [rows(run) for run in readers[0].answer()] == [new]
        known += new
        if number % 2:
            writer.do("log.close()")
            writer.end()
        else:
            writer.kill()
        for reader in readers:
            # No process writes: what was acknowledged is all there, and waiting for more ends.
            assert rows(reader.do("scanned(log)")) == known
            assert reader.do(f"pairs(log.read({len(known)}, timeout_s=0.001))") == []


@pytest.mark.row("S20", part="killed processes")
def test_what_a_reader_has_seen_of_a_writer_that_is_killed_at_work_stays(agents):
    rng = seeded("killed at work")
    for number in range(5):
        writer = agents.start("log = Log.open(path, segment_bytes=20_000); before = scanned(log)")
        before = rows(writer.do("before"))
        reader = agents.start("log = Log.open(path, read_only=True)", "seen = []")
        writer.begin(f"grow(log, {number}, 1_000_000, 'never')")
        # The reader says when it has seen enough, in the middle of whatever the writer does then.
        wanted = len(before) + rng.randrange(1, 300)
        reader.do(f"while len(seen) < {wanted}: seen += pairs(log.read(len(seen), timeout_s=PATIENCE_S))")
        writer.kill()
        seen = rows(reader.do("seen"))
        assert seen[: len(before)] == before
        assert len(seen) >= wanted
        with Log.open(agents.path, **SETTINGS) as log:
            found = [(record.offset, record.value.decode()) for record in log]
            assert found[: len(seen)] == seen
            assert [offset for offset, _ in found] == list(range(len(found)))
            assert not log.maintenance.was_clean
        assert rows(reader.do("scanned(log)")) == found
        reader.end()


# --- a forked child ---------------------------------------------------------------------------

#: How each method is called in the child; every other name of a log answers without arguments.
CALLS = """
calls = {
    "append": lambda: log.append([b"child"]),
    "append_batch": lambda: log.replica.append_batch(batch),
    "begin_epoch": lambda: log.replica.begin_epoch(9),
    "append_turn": lambda: log.replica.append_turn([batch]),
    "append_replicated": lambda: log.replica.append_replicated(batch),
    "restart_at": lambda: log.replica.restart_at(7),
    "begin_copy": lambda: log.replica.begin_copy(7),
    "end_copy": lambda: log.replica.end_copy(),
    "accept_stop": lambda: log.replica.accept_stop(),
    "set_policy": lambda: log.replica.set_policy(log.replica.policy),
    "append_encoded": lambda: log.replica.append_encoded(None),
    "ingest_file": lambda: log.replica.ingest_file(None, []),
    "append_run": lambda: log.replica.append_run(bytearray(batch), max_timestamp_ms=0),
    "open_transaction": lambda: log.replica.open_transaction(1),
    "producer_epoch": lambda: log.replica.producer_epoch(1),
    "append_control": lambda: log.replica.append_control(Marker.ABORT, producer_id=1, producer_epoch=0),
    "advance_high_watermark": lambda: log.replica.advance_high_watermark(1),
    "delete_before": lambda: log.delete_before(1),
    "truncate_to": lambda: log.replica.truncate_to(0),
    "read": lambda: log.read(0, timeout_s=PATIENCE_S),
    "read at the end": lambda: log.read(3, timeout_s=PATIENCE_S),
    "record_at": lambda: log.record_at(0),
    "locate": lambda: log.replica.locate(0),
    "fetch_region": lambda: log.replica.fetch_region(0),
    "offset_for_time": lambda: log.offset_for_time(0),
    "offset_of_max_timestamp": lambda: log.replica.offset_of_max_timestamp(),
    "check_joined": lambda: log.maintenance.check_joined(segment),
    "check_reconfigure": lambda: log.maintenance.check_reconfigure(log.maintenance.config),
    "wait_for": lambda: log.wait_for(99, timeout_s=PATIENCE_S),
    "listen": lambda: log.replica.listen(None),
    "iter": lambda: list(log),
    "a scan begun before": lambda: list(scan),
}
batch, scan, segment = log.replica.locate(0).read(), log.scan(), log.maintenance.segments[0]
# These work on an image that was taken before, and touch the log no more.
passed_over = ("open", "recover", "close", "config", "name", "path", "copy", "verify", "log")
passed_over += ("replica", "maintenance")
faces = {n: face for face in (log, log.replica, log.maintenance) for n in dir(face) if n[0] != "_"}
tries = {
    n: lambda n=n, face=face: getattr(face, n)() if callable(getattr(face, n)) else getattr(face, n)
    for n, face in faces.items()
    if n not in passed_over
}
tries |= {n: call for n, call in calls.items() if n in faces or " " in n or n == "iter"}
"""


@pytest.mark.row("S20", part="killed processes")
def test_a_forked_child_is_refused_by_every_method_of_its_parents_log(agents, ram_path):
    parent = agents.writer()
    parent.do("put(log, 'one', 'two', 'three')")
    parent.do(CALLS)
    before = tree(ram_path)
    found = parent.do("in_child(lambda: refusals(tries))")
    answered = {name for name, what in found.items() if what != "ForkedError"}
    # Numbers of the moment of the fork: they take no lock and touch no file.
    assert answered <= {
        *("log_start_offset", "log_end_offset", "high_watermark", "last_stable_offset", "synced_end"),
        *("was_clean", "leader_epoch", "epochs", "end_offset", "generation", "policy", "last_stop", "failure"),
        *("dropped_end", "clean_end"),
        *("segment_count", "segments", "size", "reserved_bytes", "taken", "next_offset"),
    }
    parent.do("in_child(log.close)")
    assert parent.do("in_child(lambda: [log.close(), log.close(), refusals({'append': calls['append']})])") == [
        *(None, None),
        {"append": "LogClosedError"},
    ]
    assert tree(ram_path) == before
    assert parent.do("put(log, 'four')") == [[3, "four"]]
    parent.do("log.flush()")
    assert [text for _, text in parent.do("scanned(log)")] == ["one", "two", "three", "four"]
    # The lock is still the parent's.
    with pytest.raises(DirectoryLockedError, match=f"locked by pid {parent.pid} "):
        Log.open(agents.path)


@pytest.mark.row("S20", part="killed processes")
def test_a_forked_child_is_refused_by_every_method_of_its_parents_reader(agents):
    writer, parent = agents.writer(), agents.reader()
    writer.do("put(log, 'one', 'two', 'three')")
    parent.do(CALLS)
    found = parent.do("in_child(lambda: refusals(tries))")
    for number in ("generation", "segment_count", "size", "epochs"):
        found.pop(number)
    assert set(found.values()) == {"ForkedError", "ReadOnlyError"}
    assert found["read"] == found["log_end_offset"] == found["a scan begun before"] == "ForkedError"
    parent.do("in_child(lambda: [log.close(), log.close()])")
    parent.begin("pairs(log.read(3, timeout_s=PATIENCE_S))")
    writer.do("put(log, 'four')")
    assert parent.answer() == [[3, "four"]]


@pytest.mark.row("S20", part="killed processes")
def test_a_forked_child_opens_for_reading_again_and_for_writing_once_the_parent_has_closed(agents):
    parent = agents.writer()
    parent.do("put(log, 'one')")
    assert parent.do("in_child(lambda: scanned(Log.open(path, read_only=True)))") == [[0, "one"]]
    for name in ("t-0", "t-1"):
        told = parent.do(f"in_child(lambda: Log.open(path[:-3] + '{name}', **settings))")
        assert told.startswith(f"DirectoryLockedError: the root is locked by pid {parent.pid} ")
    assert not agents.path.with_name("t-1").exists()
    assert parent.do("put(log, 'two')") == [[1, "two"]]
    parent.do("log.close()")
    assert parent.do("in_child(lambda: put(Log.open(path, **settings), 'child'))") == [[2, "child"]]
    parent.do("log = Log.open(path, **settings)")
    assert [text for _, text in parent.do("scanned(log)")] == ["one", "two", "child"]


def test_an_appender_that_was_opened_before_a_fork_writes_nothing_in_the_child(agents):
    parent = agents.writer()
    parent.do("appender = log.appender(linger_ms=3_600_000)")
    parent.do("appender.append(b'parent')")
    told = parent.do("in_child(lambda: refusals({'flush': appender.flush, 'close': appender.close}))")
    assert told == {"flush": "ForkedError", "close": "ForkedError"}
    assert parent.do("scanned(log)") == []
    parent.do("appender.close()")
    assert parent.do("scanned(log)") == [[0, "parent"]]


# --- a clock that goes back -------------------------------------------------------------------

HOUR = 3_600_000


def check_times(log, sent) -> None:
    """Offsets and order are those of the appends, and every look by time is that of a plain search."""
    assert [(record.offset, record.timestamp_ms, record.value) for record in log] == sent
    times = sorted({timestamp for _, timestamp, _ in sent})
    for wanted in {moved for timestamp in times for moved in (timestamp - 1, timestamp, timestamp + 1)}:
        first = next(((timestamp, offset) for offset, timestamp, _ in sent if timestamp >= wanted), None)
        assert log.offset_for_time(wanted) == first
        since = [offset for offset, timestamp, _ in sent if timestamp >= wanted]
        assert [record.offset for record in log.scan(since=wanted)] == since
        until = [offset for offset, timestamp, _ in sent if timestamp < wanted]
        assert [record.offset for record in log.scan(until=wanted)] == until


@pytest.mark.row("M6", part="one process")
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_clock_that_goes_back_between_appends_and_opens_changes_no_offset_and_no_order(ram_path, kind):
    clock, rng, sent = ManualClock(NOW_MS), seeded("clock"), []
    # The bounds against a producer's wrong clock are another matter.
    settings = SETTINGS | {"message.timestamp.type": kind}
    for _ in range(6):
        clock.set_now_ms(NOW_MS + rng.randrange(-24, 24) * HOUR)
        with open_log(ram_path, clock=clock, **settings) as log:
            assert log.log_end_offset == len(sent)
            for _ in range(12):
                clock.set_now_ms(clock.now_ms() + rng.randrange(-HOUR, HOUR))
                value = b"%d" % len(sent) * rng.randrange(1, 20)
                result = log.append([value])
                sent.append((result.first_offset, clock.now_ms(), value))
            check_times(log, sent)
            with open_log(ram_path, read_only=True, clock=clock) as reader:
                check_times(reader, sent)
    assert [offset for offset, _, _ in sent] == list(range(len(sent)))
    assert sorted(sent, key=lambda row: row[1]) != sent
    with open_log(ram_path, clock=clock, **settings) as log:
        check_times(log, sent)


@pytest.mark.row("M6", part="one process")
def test_a_clock_that_goes_back_neither_rolls_a_segment_early_nor_keeps_it_open_for_ever(ram_path):
    clock = ManualClock(NOW_MS)

    def append(now_ms):
        clock.set_now_ms(now_ms)
        log.append([b"v"])
        return list(log_files(log))

    settings = {"segment_ms": HOUR, "clock": clock}
    with open_log(ram_path, **settings) as log:
        assert append(NOW_MS) == [0]
        assert append(NOW_MS - 24 * HOUR) == [0]
        assert append(NOW_MS + HOUR) == [0]
        assert append(NOW_MS + HOUR + 1) == [0, 3]
        assert append(NOW_MS) == [0, 3]
    clock.set_now_ms(NOW_MS - 48 * HOUR)
    with open_log(ram_path, **settings) as log:
        # Its age counts from its first record, after an open too.
        assert append(NOW_MS - 48 * HOUR) == [0, 3]
        assert append(NOW_MS + 2 * HOUR + 1) == [0, 3]
        assert append(NOW_MS + 2 * HOUR + 2) == [0, 3, 7]


@pytest.mark.row("M6", part="one process")
def test_a_clock_that_goes_back_forgets_no_producer_and_no_duplicate(ram_path):
    clock = ManualClock(NOW_MS)
    settings = {"producer_id_expiration_ms": HOUR, "clock": clock}
    for number in range(4):
        with open_log(ram_path, **settings) as log:
            stamp = ProducerStamp(5, 0, number)
            assert not log.append([b"%d" % number], producer=stamp).duplicate
            clock.set_now_ms(clock.now_ms() - 24 * HOUR)
            assert log.append([b"%d" % number], producer=stamp) == (number, number, -1, True)
        with open_log(ram_path, **settings) as log:
            assert log.append([b"%d" % number], producer=stamp) == (number, number, -1, True)
            assert values_of(log) == [b"%d" % n for n in range(number + 1)]


def test_a_clock_that_goes_back_ends_no_wait_early_and_flushes_in_time(ram_path):
    clock = ManualClock(NOW_MS, skip_waits=False)
    with open_log(ram_path, clock=clock, flush_ms=1_000) as log:
        log.append([b"a"])
        clock.set_now_ms(NOW_MS - 24 * HOUR)
        log.maintenance.tick()
        assert log.synced_end == 0
        clock.advance(1_000)
        log.maintenance.tick()
        assert log.synced_end == 1
