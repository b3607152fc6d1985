"""Committing a manifest while no process, another, this one, a dead or a hung one writes the store."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import logstore
from logstore.batch._encode import Encoder
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import (
    DirectoryLockedError,
    DiskFullError,
    InvalidManifestError,
    LogstoreError,
    NotALogError,
    OwnerTimeoutError,
    StagedFileError,
    UnknownTopicError,
)
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import holder_of
from logstore.log.replica import LogReplica
from logstore.records import TopicPartition
from logstore.store import commit_client
from logstore.store.commit.commit_log import Sinks
from logstore.store.commit.ingest import Ingest, Ingested
from logstore.store.commit.staged_writer import Manifest, StagedFileWriter
from logstore.store.requests import channel, commit_server
from logstore.store.requests.commit_server import LeftFiles
from logstore.store.requests.requests import Intake
from logstore.testing import ManualClock
from tests.kit.waiting import wait_for
from tests.store.requests.owners import answer_to, owner, post, stop
from tests.store.requests.request_owner import POINTS

pytestmark = pytest.mark.row("U3")
MANUAL = {"logstore.housekeeping": "manual"}


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "data"
    with logstore.open(path, MANUAL) as store:
        store.create_topic("flights", 2)
    return path


def stage(root, batch=0, *, query="q", mode="exactly_once", attempt=0, topic_id=None):
    with logstore.open(root, read_only=True) as store:
        topic_id = topic_id or store["flights"].id
    files = []
    for partition in range(2):
        encoder = Encoder().begin(timestamp_ms=SYSTEM_CLOCK.now_ms())
        encoder.add_all(values_of(query, batch, partition))
        staging = StagedFileWriter.create(
            root, "flights", topic_id, partition, query=query, batch=batch, attempt=attempt
        )
        staging.write(encoder.finish())
        files.append(staging.close())
    return Manifest(query, batch, mode, tuple(files))


def values_of(query, batch, partition):
    return [f"{query} {batch} {partition} {n}".encode() for n in range(3)]


def committed(root):
    with logstore.open(root, read_only=True) as store:
        logs = [store["flights"][number] for number in range(2)]
        assert all(log.last_stable_offset == log.high_watermark for log in logs)
        return [[record.value for record in log.scan(isolation="read_committed")] for log in logs]


def expected(*batches):
    return [[value for key in batches for value in values_of(*key, partition)] for partition in range(2)]


def litter(root):
    return [name for name in os.listdir(root) if name.startswith(EARLIER) or name == channel.SOCKET]


EARLIER = ("logstore.inbox.", "logstore.taken.", "logstore.answer.")


# -- no process writes the store


def test_without_an_owner_the_batch_is_taken_in_here(root):
    for batch in range(3):
        assert not commit_client.commit(root, stage(root, batch), timeout_s=300).duplicate
    assert commit_client.commit(root, stage(root, 2, attempt=1), timeout_s=300) == Ingested(True, {})
    assert committed(root) == expected(("q", 0), ("q", 1), ("q", 2))
    assert holder_of(Directory(root)) is None
    assert litter(root) == []


def test_a_commit_opens_no_other_partition(root):
    with logstore.open(root, MANUAL) as store:
        store.create_topic("others", 50)
    commit_client.commit(root, stage(root), timeout_s=300)
    assert not list(root.glob("others-*/*.log"))


COMMITTER = """
    import pickle, sys
    from logstore.store import commit_client
    from logstore.store.commit.ingest import Ingest
    ingest = Ingest.ingest
    def slowly(self, manifest):
        print("in hand", flush=True)
        sys.stdin.readline()
        return ingest(self, manifest)
    Ingest.ingest = slowly
    commit_client.commit(sys.argv[1], pickle.loads(bytes.fromhex(sys.argv[2])), timeout_s=60)
"""


def test_a_process_that_opens_the_store_during_a_commit_waits_for_it(root):
    words = [sys.executable, "-c", textwrap.dedent(COMMITTER), str(root), pickle.dumps(stage(root)).hex()]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout.readline() == "in hand\n"
        opened = []
        opening = threading.Thread(target=lambda: opened.append(logstore.open(root, MANUAL)))
        opening.start()
        opening.join(0.3)
        assert opening.is_alive()
        process.communicate("\n", timeout=300)
        opening.join(300)
    assert process.returncode == 0
    opened[0].close()
    assert committed(root) == expected(("q", 0))


def test_without_a_store_nothing_is_made(tmp_path):
    manifest = Manifest("q", 0, "exactly_once", ())
    with pytest.raises(NotALogError):
        commit_client.commit(tmp_path / "nowhere", manifest, timeout_s=1)
    assert not (tmp_path / "nowhere").exists()


def test_settings_of_the_store_hold_for_a_commit(root):
    commit_client.commit(root, stage(root), timeout_s=5, settings={"logstore.write.strategy": "extend"})
    with pytest.raises(logstore.errors.ConfigError):
        commit_client.commit(root, stage(root, 1), timeout_s=5, settings={"no.such.key": 1})


def test_an_aborted_manifest_leaves_no_files_and_no_records(root):
    manifest = stage(root)
    commit_client.abort(root, manifest)
    commit_client.abort(root, manifest)
    assert not list(root.glob("*/.staging/*"))
    with pytest.raises(StagedFileError, match="missing"):
        commit_client.commit(root, manifest, timeout_s=300)
    with pytest.raises(InvalidManifestError):
        commit_client.abort(root, manifest._replace(query="another"))
    assert committed(root) == [[], []]


# -- another process does


def test_a_living_owner_takes_it_in_and_answers(root):
    with owner(root):
        for batch in range(3):
            found = commit_client.commit(root, stage(root, batch), timeout_s=300)
            assert found == Ingested(
                False, {TopicPartition("flights", p): (4 * batch, 4 * batch + 2) for p in (0, 1)}
            )
        assert commit_client.commit(root, stage(root, 2, attempt=1), timeout_s=300).duplicate
        assert committed(root) == expected(("q", 0), ("q", 1), ("q", 2))
    assert litter(root) == []


def test_an_owners_error_is_raised_here_as_it_is(root):
    with owner(root):
        manifest = stage(root)
        commit_client.abort(root, manifest)
        with pytest.raises(StagedFileError, match="missing"):
            commit_client.commit(root, manifest, timeout_s=300)
        with pytest.raises(UnknownTopicError, match="another of this name"):
            commit_client.commit(root, stage(root, topic_id="another"), timeout_s=300)
        commit_client.commit(root, stage(root), timeout_s=300)
    assert committed(root) == expected(("q", 0))


def test_a_hung_owner_is_named_and_takes_in_nothing_later(root):
    with owner(root) as process:
        commit_client.commit(root, stage(root), timeout_s=300)
        stop(process)
        with pytest.raises(OwnerTimeoutError, match=rf"pid {process.pid} \(host=.*bootstrap.*nothing was done"):
            commit_client.commit(root, stage(root, 1), timeout_s=0.3)
        process.send_signal(signal.SIGCONT)
        commit_client.commit(root, stage(root, 2), timeout_s=300)
    assert committed(root) == expected(("q", 0), ("q", 2))


def test_a_log_that_this_process_has_open_by_itself_is_named(root):
    with logstore.Log.open(root / "flights-0"), pytest.raises(DirectoryLockedError, match="share that Log"):
        commit_client.commit(root, stage(root), timeout_s=0.2)
    assert not commit_client.commit(root, stage(root), timeout_s=300).duplicate


@pytest.mark.parametrize("point", POINTS)
def test_an_owner_that_dies_anywhere_loses_and_doubles_nothing(root, point):
    commit_client.commit(root, stage(root, 0), timeout_s=300)
    with owner(root, point) as process:
        found = commit_client.commit(root, stage(root, 1), timeout_s=300)
        process.wait(300)
        assert process.returncode == -signal.SIGKILL
        assert found.duplicate == (point in ("committing", "marker", "done", "removed", "answering"))
    assert commit_client.commit(root, stage(root, 1, attempt=1), timeout_s=300).duplicate
    commit_client.commit(root, stage(root, 2), timeout_s=300)
    assert committed(root) == expected(("q", 0), ("q", 1), ("q", 2))
    logstore.open(root).close()  # the socket of a killed owner is there until then
    assert litter(root) == []
    assert not list(root.glob("*/.staging/*"))


@pytest.mark.parametrize("point", ["taken", "data", "committing", "answering"])
def test_a_sender_that_dies_with_its_owner_may_ask_the_next_one(root, point):
    """The next owner knows nothing of its request, and the batch is asked for again."""
    with owner(root, point) as process:
        connection = post(root, Intake(stage(root, 1)))
        process.wait(300)
        connection.close()
    with owner(root):
        commit_client.commit(root, stage(root, 1, attempt=1), timeout_s=300)
        assert committed(root) == expected(("q", 1))
    assert litter(root) == []


def test_many_senders_of_one_batch_get_it_in_once(root):
    for has_owner in (False, True):
        batch = int(has_owner)
        manifests = [stage(root, batch, attempt=attempt) for attempt in range(4)]
        with owner(root) if has_owner else contextlib.nullcontext(), ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda manifest: commit_client.commit(root, manifest, timeout_s=300), manifests))
        assert sorted(each.duplicate for each in found) == [False, True, True, True]
    assert committed(root) == expected(("q", 0), ("q", 1))
    assert litter(root) == []


def test_senders_of_many_queries_all_get_in(root):
    def send(query):
        for batch in range(3):
            commit_client.commit(root, stage(root, batch, query=query), timeout_s=60)

    threads = [threading.Thread(target=send, args=(f"query {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = committed(root)
    keys = [(f"query {n}", batch) for n in range(4) for batch in range(3)]
    assert [sorted(values) for values in found] == [sorted(values) for values in expected(*keys)]


# -- this process does, or no process runs maintenance


def test_a_store_of_this_process_answers_too(root):
    with logstore.open(root) as store:
        commit_client.commit(root, stage(root), timeout_s=300)
        assert store._host.ingest(stage(root, attempt=1)).duplicate
    assert committed(root) == expected(("q", 0))


def test_a_store_that_is_driven_answers_when_it_is(root):
    with logstore.open(root, MANUAL) as store:
        found = []
        manifest = stage(root)
        thread = threading.Thread(target=lambda: found.append(commit_client.commit(root, manifest, timeout_s=60)))
        thread.start()
        wait_for(lambda: (store.housekeep(), found)[1], 60)
        thread.join()
    assert found[0].duplicate is False
    assert committed(root) == expected(("q", 0))


def test_a_request_whose_sender_has_gone_is_dropped(root):
    with logstore.open(root, MANUAL) as store:
        post(root, Intake(stage(root))).close()
        store.housekeep()
    assert litter(root) == []
    assert committed(root) == [[], []]


def test_bytes_that_are_no_request_are_answered_and_harm_nothing(root):
    with logstore.open(root, MANUAL) as store:
        strange = channel.connect(Directory(root))
        strange.sendall(b"\0\0\0\x28" + b"\0" * 40)
        whole = post(root, Intake(stage(root)))
        store.housekeep()
        assert answer_to(whole)["duplicate"] is False
        with pytest.raises(InvalidManifestError):
            answer_to(strange)
    assert committed(root) == expected(("q", 0))


def test_a_sender_that_was_told_that_nothing_was_done_is_not_served_later(root):
    with logstore.open(root, MANUAL) as store:
        with pytest.raises(OwnerTimeoutError, match="nothing was done"):
            commit_client.commit(root, stage(root), timeout_s=0.2)
        store.housekeep()
    assert committed(root) == [[], []]


def test_answers_that_are_not_read_hold_up_nothing(root, monkeypatch):
    """The senders are hung; in the end the third one lives again, and asks once more."""
    monkeypatch.setattr(commit_server, "SENDER_S", 0.1)
    send = channel.send

    def full(connection, message, check):
        if "result" in message and unread:
            unread.pop()
            raise TimeoutError("the sender of a request does not read the answer")
        send(connection, message, check)

    unread = [1, 2]
    monkeypatch.setattr(channel, "send", full)
    with logstore.open(root, MANUAL) as store:
        connections = [post(root, Intake(stage(root, query=query))) for query in ("q", "r", "s")]
        store.housekeep()
        for connection in connections[:2]:
            with pytest.raises((EOFError, ConnectionError)):
                answer_to(connection)
        assert answer_to(connections[2])["duplicate"] is False
        again = post(root, Intake(stage(root, query="q", attempt=1)))
        store.housekeep()
        assert answer_to(again)["duplicate"] is True


def test_an_owner_that_cannot_settle_tries_again(root, monkeypatch):
    """Readers wait for it, and no other process may ever ask."""
    clock = ManualClock(now_ms=SYSTEM_CLOCK.now_ms())
    with logstore.open(root, MANUAL, clock=clock) as store:
        store.housekeep()
        log = store["flights"][0]
        with monkeypatch.context() as patch:
            patch.setattr(LogReplica, "append_control", no_space)
            patch.setattr(Sinks, "flush", no_space)
            patch.setattr(Ingest, "_flush", no_space)
            with pytest.raises(DiskFullError):
                store._host.ingest(stage(root))
        assert log.last_stable_offset < log.log_end_offset
        clock.advance(commit_server.SETTLE_MS)
        store.housekeep()
        assert log.last_stable_offset == log.log_end_offset
    assert committed(root) == [[], []]


def no_space(*arguments, **keywords):
    raise DiskFullError("no room")


def test_what_others_have_left_goes_after_a_day(root):
    directory = Directory(root)
    for name in ("logstore.inbox.x.tmp", "logstore.taken.x", "logstore.answer.x", "logstore.inbox.bell"):
        (root / name).write_bytes(b"")
    clock = ManualClock(now_ms=SYSTEM_CLOCK.now_ms())
    left = LeftFiles(directory, clock)
    left.sweep()
    assert len(litter(root)) == 4
    clock.advance(commit_server.SWEEP_MS - 1)
    left.sweep()
    assert len(litter(root)) == 4
    clock.advance(1001)
    left.sweep()
    assert litter(root) == []


def test_a_batch_that_was_left_undecided_is_settled_by_the_next_open(root):
    """Else it would keep committed readers waiting for a query that does not go on."""
    with owner(root, "data") as process:
        connection = post(root, Intake(stage(root)))
        process.wait(300)
        connection.close()
    with logstore.open(root, MANUAL) as store:
        logs = [store["flights"][number] for number in range(2)]
        # Both are written side by side: which of them had its data when the owner died is not known.
        assert any(log.last_stable_offset < log.log_end_offset for log in logs)
        store.housekeep()
        assert all(log.last_stable_offset == log.log_end_offset for log in logs)
    assert committed(root) == [[], []]


def test_an_error_that_is_not_ours_keeps_its_name():
    message = json.loads(json.dumps(channel.message_of_error(ZeroDivisionError("odd"))))
    with pytest.raises(LogstoreError, match=r"ZeroDivisionError: odd") as caught:
        channel.result_of(message)
    assert type(caught.value) is LogstoreError


def test_an_error_without_attributes_is_the_nearest_that_a_text_makes():
    for error, kind in (("NotALogError", logstore.errors.NotALogError), ("ExpectedOffsetError", LogstoreError)):
        with pytest.raises(LogstoreError, match="t") as caught:
            channel.result_of({"error": error, "text": "t"})
        assert type(caught.value) is kind


@pytest.mark.parametrize("message", [{}, {"result": 1}, {"accepted": 1}])
def test_an_answer_that_is_none_is_refused(message):
    with pytest.raises(InvalidManifestError, match="no result"):
        channel.result_of(message)


def test_an_owner_that_no_process_asks_does_not_wake(root, monkeypatch):
    waits = []
    honest = channel.accept

    def accept(listener):
        waits.append(listener.gettimeout())
        return honest(listener)

    monkeypatch.setattr(channel, "accept", accept)
    with logstore.open(root):
        commit_client.commit(root, stage(root), timeout_s=300)
        wait_for(lambda: len(waits) > 1, 300)
    assert waits == [None, None]  # one after the commit, until the store was closed


def test_asking_for_the_holder_of_a_root_does_not_give_its_lock_away(root):
    """POSIX takes all locks of a process from a file of which it closes any descriptor."""
    with logstore.open(root, MANUAL):
        for _ in range(2):
            assert holder_of(Directory(root)).pid == os.getpid()
            asked = "import logstore, sys; logstore.open(sys.argv[1])"
            environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            told = subprocess.run(
                [sys.executable, "-c", asked, str(root)], env=environ, capture_output=True, text=True
            )
            assert "DirectoryLockedError" in told.stderr


def test_a_store_with_an_undecided_batch_is_not_handed_back(root):
    with owner(root, "data") as process:
        connection = post(root, Intake(stage(root)))
        process.wait(300)
        connection.close()
    with pytest.raises(NotALogError, match=r"batch of q is undecided.*housekeep"):
        logstore.release_to_kafka(root, leave_stray=True)
    with logstore.open(root, MANUAL) as store:
        store.housekeep()
    logstore.release_to_kafka(root, leave_stray=True)


def test_the_holder_of_a_root_is_told_without_taking_its_lock(root):
    directory = Directory(root)
    assert holder_of(directory) is None
    with owner(root) as process:
        assert f"pid={process.pid}" in holder_of(directory).told
    with logstore.open(root, MANUAL):
        assert holder_of(directory).pid == os.getpid()
        # Looking at it has not given it away.
        code = f"import logstore\ntry:\n logstore.open({str(root)!r})\nexcept BlockingIOError:\n print('locked')"
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True)
        assert told.stdout == "locked\n"
