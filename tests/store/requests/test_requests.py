"""What a process that may only read asks of the one that writes: commits of groups, snapshots."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import logstore
from logstore import aio
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import (
    DirectoryLockedError,
    InvalidManifestError,
    LogstoreError,
    NotALogError,
    OffsetMetadataTooLargeError,
    OwnerTimeoutError,
    ReadOnlyError,
    UnknownPartitionError,
)
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import Holder
from logstore.records import TopicPartition
from logstore.store.admin import snapshots
from logstore.store.committed_offsets import OffsetAndMetadata
from logstore.store.requests import asking, channel, commit_server, requests
from logstore.store.requests.requests import KINDS, VERSION, Commit, Copy, message_of, request_of
from logstore.store.store import open_briefly
from logstore.testing import ManualClock
from tests.kit.waiting import wait_for
from tests.store.requests.owners import answer_to, owner, post, stop

pytestmark = pytest.mark.row("M9")

A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)
MANUAL = {"logstore.housekeeping": "manual"}


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "data"
    with logstore.open(path, MANUAL) as store:
        flights = store.create_topic("flights", 2)
        for partition in range(2):
            flights.append_many([b"%d" % n for n in range(5)], partition=partition)
    return path


@pytest.fixture(params=["no owner", "an owner"])
def served(request, root):
    """A store that no process writes, or that another process does."""
    if request.param == "no owner":
        yield root
    else:
        with owner(root):
            yield root


def taken(*, brief):
    raise DirectoryLockedError("another process writes the store")


def offsets_of(root, group):
    with logstore.open(root, read_only=True) as store:
        return {place: commit.offset for place, commit in store.committed(group).items()}


# --- commits -----------------------------------------------------------------------------------


def test_a_group_of_a_reader_commits_what_it_has_read(served):
    with logstore.open(served, read_only=True) as store, store.consumer(group="mailers") as consumer:
        consumer.assign([A])
        consumer.seek_to_beginning()
        assert len(consumer.poll(0, 3)) == 3
        assert consumer.commit()[A].offset == 3
        assert consumer.committed([A])[A].offset == 3
        assert [lag.records for lag in store.lag("mailers")] == [2]
        assert len(consumer.poll()) == 2
    assert offsets_of(served, "mailers") == {A: 5}


def test_commits_of_readers_say_what_those_of_the_writer_say(served):
    with logstore.open(served, read_only=True) as store:
        store.commit_offsets("crew", {A: OffsetAndMetadata(2, "note"), B: 1}, ack="synced")
        found = store.committed("crew")[A]
        assert (found.offset, found.metadata, found.topic_id) == (2, "note", store["flights"].id)
        with pytest.raises(UnknownPartitionError):
            store.commit_offsets("crew", {TopicPartition("flights", 2): 1})
        with pytest.raises(OffsetMetadataTooLargeError):
            store.commit_offsets("crew", {A: OffsetAndMetadata(2, "x" * 10_000)})
        assert store.offsets.delete("crew", [B]) == 1
    assert offsets_of(served, "crew") == {A: 2}


def test_commits_of_many_readers_are_all_there(served):
    groups = [f"group-{number}" for number in range(8)]

    def commit(group):
        with logstore.open(served, read_only=True) as store:
            for offset in range(1, 6):
                store.commit_offsets(group, {A: offset})

    threads = [threading.Thread(target=commit, args=[group]) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert [offsets_of(served, group) for group in groups] == [{A: 5}] * len(groups)


@pytest.mark.parametrize("point", ["taken", "answering"])
def test_a_commit_whose_owner_dies_is_made_by_the_reader(root, point):
    with owner(root, point) as process, logstore.open(root, read_only=True) as store:
        store.commit_offsets("crew", {A: 4})
        assert process.wait(300) == -signal.SIGKILL
    assert offsets_of(root, "crew") == {A: 4}


def test_a_hung_owner_is_named_and_nothing_is_committed_later(root):
    with owner(root) as process:
        stop(process)
        with pytest.raises(OwnerTimeoutError, match=rf"pid {process.pid} .*store the offsets of group 'crew'"):
            asking.ask(Directory(root), Commit("crew", {A: OffsetAndMetadata(4)}, None, 0), taken, timeout_s=0.2)
        process.send_signal(signal.SIGCONT)
        with logstore.open(root, read_only=True) as store:
            store.commit_offsets("crew", {A: 1})
    assert offsets_of(root, "crew") == {A: 1}


def test_a_reader_beside_the_writer_in_one_process_commits_too(root):
    with logstore.open(root) as store, logstore.open(root, read_only=True) as reading:
        reading.commit_offsets("crew", {A: 3})
        assert store.committed("crew")[A].offset == 3


def test_a_group_that_can_never_commit_is_refused_before_it_reads(root, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_arguments: False)  # as for another user
    with logstore.open(root, read_only=True) as store:
        with pytest.raises(ReadOnlyError, match=r"crew.*cannot be written.*enable_auto_commit=False"):
            store.consumer(group="crew")
        store.consumer(group="crew", enable_auto_commit=False).close()


def test_a_group_in_a_directory_of_kafka_is_refused_before_it_reads(tmp_path, root):
    kafkas = tmp_path / "kafkas" / "flights-0"
    kafkas.mkdir(parents=True)
    shutil.copy(next(root.glob("flights-0/*.log")), kafkas)
    with (
        logstore.open(kafkas.parent, read_only=True) as store,
        pytest.raises(ReadOnlyError, match=r"crew.*cannot commit.*Kafka"),
    ):
        store.consumer(group="crew")


def test_a_late_request_does_not_take_a_newer_commit_back(root):
    before_ms = SYSTEM_CLOCK.now_ms() - 1
    with logstore.open(root, MANUAL) as store:
        late = [
            post(root, Commit("crew", {A: OffsetAndMetadata(1), B: OffsetAndMetadata(1)}, None, before_ms)),
            post(root, Commit("crew", {A: None}, None, before_ms)),
        ]
        store.commit_offsets("crew", {A: 3})
        store.housekeep()
        for connection in late:
            answer_to(connection)
    assert offsets_of(root, "crew") == {A: 3, B: 1}


def test_a_request_of_a_dead_reader_is_not_carried_out(root):
    with logstore.open(root, MANUAL) as store:
        post(root, Commit("crew", {A: OffsetAndMetadata(1)}, None, SYSTEM_CLOCK.now_ms())).close()
        store.housekeep()
    assert offsets_of(root, "crew") == {}


def test_a_commit_of_a_clock_that_was_set_back_keeps_no_process_out(root):
    with logstore.open(root, MANUAL) as store:
        ahead = SYSTEM_CLOCK.now_ms() + 3_600_000
        store.commit_offsets("crew", {A: OffsetAndMetadata(3, commit_ms=ahead)})
    with logstore.open(root, read_only=True) as store:
        store.commit_offsets("crew", {A: 4})
    assert offsets_of(root, "crew") == {A: 4}


def test_a_request_whose_owner_was_replaced_is_made_again(root, monkeypatch):
    """The owner dies, and the next one has the lock before the sender looks; a child keeps the old socket open."""
    holders = iter([Holder(1, "first"), *[Holder(2, "second")] * 3])
    monkeypatch.setattr(asking, "holder_of", lambda _root: next(holders, None))
    refused = iter([True, False])

    def opener(*, brief):
        if next(refused):
            raise DirectoryLockedError("another process writes the store")
        return logstore.open(root, MANUAL)

    with channel.listen(Directory(root)):
        asking.ask(Directory(root), Commit("crew", {A: OffsetAndMetadata(4)}, None, 1), opener, timeout_s=60)
    assert offsets_of(root, "crew") == {A: 4}


@pytest.mark.parametrize("commits_itself", [True, False])
def test_a_group_without_news_renews_its_offsets(root, commits_itself):
    """The writer knows no consumers of other processes, and forgets what was not renewed for a week."""
    clock = ManualClock(now_ms=SYSTEM_CLOCK.now_ms())
    with (
        logstore.open(root, read_only=True, clock=clock) as store,
        store.consumer(group="crew", auto_offset_reset="earliest", enable_auto_commit=commits_itself) as consumer,
    ):
        consumer.assign([A])
        assert len(consumer.poll()) == 5
        clock.advance(10_000)
        consumer.poll()
        if not commits_itself:
            consumer.commit()
        first = store.committed("crew")[A]
        for _ in range(6):
            clock.advance(86_400_000)
            consumer.poll()
        last = store.committed("crew")[A]
    assert (first.offset, last.offset) == (5, 5)
    assert last.commit_ms - first.commit_ms >= 4 * 86_400_000


@pytest.mark.parametrize(
    ("version", "kinds", "said"),
    [
        (VERSION - 1, list(KINDS), "an earlier version .* does not store the offsets of .*restart that process"),
        (VERSION, ["manifest"], "an earlier version .* does not store the offsets of .*restart that process"),
        (VERSION + 1, list(KINDS), "a later version .* does not store the offsets of .*Upgrade this process"),
    ],
)
def test_an_owner_of_another_version_is_named(root, monkeypatch, version, kinds, said):
    monkeypatch.setattr(requests, "accepted", lambda: {"accepted": version, "kinds": kinds})
    with (
        logstore.open(root),
        logstore.open(root, read_only=True) as reader,
        pytest.raises(OwnerTimeoutError, match=rf"pid {os.getpid()} .*{said}"),
    ):
        reader.commit_offsets("crew", {A: 1})


@pytest.mark.parametrize("timeout_s", [0.2, 60])
def test_an_owner_without_a_socket_is_named(root, monkeypatch, timeout_s):
    """It is of a version that had files for requests, or its file system has no sockets."""
    monkeypatch.setattr(asking, "_SOCKET_S", 0.2)
    request = Commit("crew", {A: OffsetAndMetadata(4)}, None, 0)
    with owner(root, "no sockets") as process:
        with pytest.raises(OwnerTimeoutError, match=rf"pid {process.pid} .*logstore.socket.*earlier version"):
            asking.ask(Directory(root), request, taken, timeout_s=timeout_s)
    assert offsets_of(root, "crew") == {}


def test_a_store_opens_where_the_file_system_has_no_sockets(root, monkeypatch, caplog):
    def refused(_socket, _address):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(asking, "_SOCKET_S", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr(channel.socket, "socket", type("NoSockets", (socket.socket,), {"bind": refused}))
        store = logstore.open(root)
    with store, logstore.open(root, read_only=True) as reader:
        assert "no requests of other processes" in caplog.text
        assert store["flights"].append(b"mine", partition=0).offset == 5
        with pytest.raises(OwnerTimeoutError, match=r"no sockets.*end it"):
            reader.commit_offsets("crew", {A: 1})


def test_a_socket_that_a_killed_owner_has_left_is_replaced(root):
    with owner(root) as process:
        process.kill()
        process.wait(300)
    assert (root / channel.SOCKET).is_socket()
    with logstore.open(root, read_only=True) as reader:
        reader.commit_offsets("crew", {A: 1})
        with owner(root):
            reader.commit_offsets("crew", {A: 2})
    assert not (root / channel.SOCKET).exists()
    assert offsets_of(root, "crew") == {A: 2}


def test_a_root_with_a_long_path_has_a_channel_too(tmp_path):
    root = tmp_path / ("long" * 30) / ("longer" * 20)
    with logstore.open(root) as store, logstore.open(root, read_only=True) as reader:
        store.create_topic("flights")
        reader.commit_offsets("crew", {A: 0})
        assert store.committed("crew")[A].offset == 0


@pytest.mark.parametrize("mode", [0o700, 0o770, 0o755])
def test_a_user_that_may_write_the_directory_may_ask(root, mode):
    root.chmod(mode)
    with logstore.open(root):
        assert stat.S_IMODE((root / channel.SOCKET).stat().st_mode) == mode & 0o666


def test_a_forked_child_does_not_answer(root):
    with logstore.open(root) as store:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                signal.pause()
            os._exit(0)
        try:
            with logstore.open(root, read_only=True) as reader:
                reader.commit_offsets("crew", {A: 1})
                store.close()
                assert not (root / channel.SOCKET).exists()
                reader.commit_offsets("crew", {A: 2})
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert offsets_of(root, "crew") == {A: 2}


def test_a_child_of_a_dead_owner_keeps_no_sender_waiting(root):
    """The kernel keeps a socket open in every process that has inherited it."""
    with channel.listen(Directory(root)):  # which a child would still have
        with logstore.open(root, read_only=True) as reader:
            reader.commit_offsets("crew", {A: 2})
        refused = iter([True, False])

        def opener(*, brief):
            if next(refused):
                raise DirectoryLockedError("another process writes the store")
            return logstore.open(root, MANUAL)

        asking.ask(Directory(root), Commit("crew", {A: OffsetAndMetadata(4)}, None, 1 << 60), opener, timeout_s=60)
    assert offsets_of(root, "crew") == {A: 4}


def test_requests_of_an_earlier_version_are_not_carried_out(root):
    """Its sender names the owner when its time is over, and may have done the work by then."""
    slip = "0" * 32 + ".0." + "0" * 16
    payload = Commit("crew", {A: OffsetAndMetadata(4)}, None, SYSTEM_CLOCK.now_ms()).payload()
    (root / f"logstore.inbox.{slip}").write_text(json.dumps({"until_ms": 1 << 60, "commit": payload}))
    (root / "logstore.inbox.bell").write_bytes(b"1" * 16)
    with logstore.open(root, MANUAL) as store:
        store.housekeep()
    assert offsets_of(root, "crew") == {}
    assert (root / f"logstore.inbox.{slip}").exists()


def test_an_interrupted_sender_is_not_served_later(root):
    with logstore.open(root, MANUAL) as store:
        request = Commit("crew", {A: OffsetAndMetadata(4)}, None, 0)
        with pytest.raises(KeyboardInterrupt):
            interrupted_after(0.2, lambda: asking.ask(Directory(root), request, taken))
        store.housekeep()
    assert offsets_of(root, "crew") == {}


def test_an_interrupt_ends_a_wait_that_is_shielded(root, monkeypatch):
    monkeypatch.setattr(asking, "interrupted", lambda: True)
    with logstore.open(root, MANUAL) as store:
        with pytest.raises(OwnerTimeoutError, match="until it was interrupted"):
            asking.ask(Directory(root), Commit("crew", {A: OffsetAndMetadata(4)}, None, 0), taken)
        store.housekeep()
    assert offsets_of(root, "crew") == {}


def interrupted_after(seconds, call):
    timer = threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer.start()
    try:
        call()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_a_process_that_may_not_take_the_lock_asks_its_holder(root):
    def opener(*, brief):
        raise ReadOnlyError("the lock is another user's")

    with logstore.open(root):
        asking.ask(Directory(root), Commit("crew", {A: OffsetAndMetadata(4)}, None, 1), opener)
    assert offsets_of(root, "crew") == {A: 4}
    with pytest.raises(ReadOnlyError):
        asking.ask(Directory(root), Commit("crew", {A: OffsetAndMetadata(4)}, None, 1), opener)


# --- snapshots ---------------------------------------------------------------------------------


@pytest.fixture
def copying(monkeypatch):
    """Snapshots stop before they copy: when one has come there, and what resumes it."""
    begun, go_on = threading.Event(), threading.Event()
    honest = snapshots._copy_logs

    def slowly(*arguments, **keywords):
        begun.set()
        assert go_on.wait(60)
        return honest(*arguments, **keywords)

    monkeypatch.setattr(snapshots, "_copy_logs", slowly)
    return begun, go_on


def test_commits_are_answered_while_a_snapshot_is_taken(root, tmp_path, copying):
    begun, go_on = copying

    def copy():
        with logstore.open(root, read_only=True) as store:
            store.snapshot(tmp_path / "copy")

    with logstore.open(root) as store:
        store.commit_offsets("crew", {A: 1})  # which makes the topic, for which a snapshot is waited for
        asking_thread = threading.Thread(target=copy)
        asking_thread.start()
        assert begun.wait(60)
        with logstore.open(root, read_only=True) as reader:
            reader.commit_offsets("crew", {A: 2})
        go_on.set()
        asking_thread.join(60)
    assert offsets_of(root, "crew") == {A: 2}
    assert (tmp_path / "copy").exists()


def test_a_snapshot_of_a_reader_is_a_store(served, tmp_path):
    with logstore.open(served, read_only=True) as store:
        taken = store.snapshot(tmp_path / "copy", verify=True)
    assert (taken.path, taken.partitions) == (str(tmp_path / "copy"), 2)
    assert taken.verified_bytes > 0
    with logstore.open(tmp_path / "copy", create=False) as copy:
        assert [record.value for record in copy["flights"].scan()].count(b"4") == 2


def test_what_stands_in_the_way_of_a_snapshot_is_told_to_the_reader(served, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").touch()
    with logstore.open(served, read_only=True) as store, pytest.raises(NotALogError, match="already"):
        store.snapshot(tmp_path / "copy")
    assert os.listdir(tmp_path / "copy") == ["mine"]


def test_a_reader_whose_owner_closes_during_the_snapshot_takes_it_by_itself(root, tmp_path, copying):
    begun, go_on = copying
    taken = []

    def copy():
        with logstore.open(root, read_only=True) as store:
            taken.append(store.snapshot(tmp_path / "copy"))

    store = logstore.open(root)
    asking = threading.Thread(target=copy)
    asking.start()
    assert begun.wait(60)
    closing = threading.Thread(target=store.close)
    closing.start()
    wait_for(store._host.requests._stopping.is_set, 60)
    go_on.set()
    closing.join(60)
    asking.join(60)
    assert taken[0].partitions == 2
    assert sorted(os.listdir(tmp_path)) == ["copy", "data"]


def test_a_snapshot_is_waited_for_as_long_as_its_owner_lives(root, tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "_LEAST_GRACE_S", 0.01)
    honest = snapshots._copy_logs

    def slowly(*arguments, **keywords):
        begun_s = time.monotonic()
        wait_for(lambda: time.monotonic() > begun_s + 1)
        return honest(*arguments, **keywords)

    monkeypatch.setattr(snapshots, "_copy_logs", slowly)
    with logstore.open(root):
        ask = Copy(str(tmp_path / "copy"), link=True, verify=False)
        # Longer than until its owner accepts it, shorter than the copy takes.
        assert asking.ask(Directory(root), ask, taken, timeout_s=0.5).partitions == 2


# --- messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ('{"kind": "dance", "request": {}}', r"'dance'.*upgrade logstore there"),
        ('{"kind": ["dance"], "request": {}}', "the request cannot be parsed"),
        ('{"kind": "commit", "request": {"group": "g"}}', "the request cannot be parsed"),
        (
            '{"kind": "commit", "request": {"group": "g", "at_ms": 1, "ack": null, "offsets": [["t", 0, 1]]}}',
            "the request cannot be parsed",
        ),
        ('{"kind": "snapshot", "request": ["path"]}', "the request cannot be parsed"),
        ('{"kind": "snapshot"}', "the request cannot be parsed"),
        ("{}", "the request cannot be parsed"),
    ],
)
def test_a_message_that_asks_for_nothing_known_is_refused(payload, message):
    with pytest.raises(InvalidManifestError, match=message):
        request_of(json.loads(payload))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\0\0\0\x02[]", "the message cannot be parsed"),
        (b'\0\0\0\x04{"a"', "the message cannot be parsed"),
        (b"\0\0\0\x02\xff\xff", "the message cannot be parsed"),
        (b"\0\0\0\0", "the message cannot be parsed"),
        (b"\0\x01\x86\xa0" + b"[" * 100_000, "the message cannot be parsed"),
        (b"\xff\xff\xff\xff", "more than"),
        (b"GET / HTTP/1.1\r\n\r\n", "more than"),
        (b"\0\0\0\x0e" + b'{"kind": null}', "not know"),
    ],
)
def test_bytes_that_are_no_request_are_refused_and_the_owner_lives_on(root, sent, said):
    with logstore.open(root), logstore.open(root, read_only=True) as reader:
        connection = channel.connect(Directory(root))
        connection.sendall(sent)
        with pytest.raises(LogstoreError, match=said):
            answer_to(connection)
        reader.commit_offsets("crew", {A: 1})
    assert offsets_of(root, "crew") == {A: 1}


def test_half_a_request_is_none(root, monkeypatch):
    """Its sender was killed, or is hung, in the middle."""
    monkeypatch.setattr(commit_server, "SENDER_S", 0.2)
    whole = json.dumps(message_of(Commit("crew", {A: OffsetAndMetadata(4)}, None, 1 << 60))).encode()
    half = len(whole).to_bytes(4, "big") + whole[:-1]
    with logstore.open(root), logstore.open(root, read_only=True) as reader:
        killed, hung = channel.connect(Directory(root)), channel.connect(Directory(root))
        killed.sendall(half)
        killed.close()
        hung.sendall(half)
        with pytest.raises((EOFError, ConnectionError)):
            answer_to(hung)
        reader.commit_offsets("others", {A: 1})
    assert offsets_of(root, "crew") == {}


def test_offsets_that_are_none_are_answered_and_harm_nothing(root):
    bad = OffsetAndMetadata("seven")
    with logstore.open(root, MANUAL) as store:
        connection = post(root, Commit("crew", {A: bad}, None, 0))
        store.housekeep()
        with pytest.raises(LogstoreError):
            answer_to(connection)
    assert offsets_of(root, "crew") == {}


def test_a_request_that_is_too_long_is_not_sent(root, monkeypatch):
    monkeypatch.setattr(channel, "MOST_BYTES", 100)
    with (
        logstore.open(root),
        logstore.open(root, read_only=True) as reader,
        pytest.raises(InvalidManifestError, match="more than 100"),
    ):
        reader.commit_offsets("c" * 100, {A: 1})


def test_no_copy_of_a_store_has_its_socket(root, tmp_path):
    with logstore.open(root) as store:
        store.snapshot(tmp_path / "copy")
        assert (root / channel.SOCKET).is_socket()
        findings = logstore.diagnose(root) if hasattr(logstore, "diagnose") else []
        assert not [each for each in findings if channel.SOCKET in str(each)]
    assert not (tmp_path / "copy" / channel.SOCKET).exists()


def test_a_left_socket_does_not_go_to_kafka(root):
    channel.listen(Directory(root)).close()
    logstore.release_to_kafka(root, leave_stray=True)
    assert not (root / channel.SOCKET).exists()
    channel.listen(Directory(root)).close()
    logstore.adopt_kafka_directory(root)


# --- waiting for the lock ----------------------------------------------------------------------


def test_an_open_waits_for_another_process_to_close_the_store(root):
    with owner(root) as process:
        threading.Timer(0.3, process.stdin.close).start()
        with logstore.open(root, MANUAL, wait_s=300) as store:
            assert process.wait(300) == 0
            assert store["flights"].append(b"mine", partition=0).offset == 5


def test_an_open_that_has_waited_long_enough_names_the_owner(root):
    with owner(root) as process:
        for wait_s in (0, 0.2):
            began_s = time.monotonic()
            with pytest.raises(DirectoryLockedError, match=f"pid {process.pid}"):
                logstore.open(root, wait_s=wait_s)
            assert time.monotonic() - began_s >= wait_s


def test_an_open_does_not_wait_for_its_own_process(root):
    with logstore.open(root, MANUAL), pytest.raises(DirectoryLockedError, match="this process"):
        logstore.open(root, wait_s=None)


def test_an_open_waits_for_another_thread_that_has_the_store_for_a_moment(root):
    brief = open_briefly(root)
    threading.Timer(0.2, brief.close).start()
    logstore.open(root, MANUAL).close()


def test_an_asynchronous_open_waits_without_a_thread_and_can_be_given_up(root):
    async def opened(wait_s, most_s):
        async with await asyncio.wait_for(aio.open(root, MANUAL, wait_s=wait_s), most_s) as store:
            return await store.topics()

    with owner(root) as process:
        with pytest.raises(TimeoutError):
            asyncio.run(opened(None, 0.3))
        with pytest.raises(DirectoryLockedError):
            asyncio.run(opened(0.1, 60))
        wait_for(lambda: not any("logstore-aio" in thread.name for thread in threading.enumerate()), 60)
        threading.Timer(0.2, process.stdin.close).start()
        assert asyncio.run(opened(60, 60)) == ["flights"]


@pytest.mark.parametrize("wait_s", [float("nan"), "soon"])
def test_a_wait_that_is_no_time_is_refused(root, wait_s):
    with pytest.raises((ValueError, TypeError), match="wait_s"):
        logstore.open(root, wait_s=wait_s)


def is_waiting(pid):
    """Whether a process sleeps in a call to the system."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_an_interrupt_ends_the_wait(root):
    script = """
import signal, sys, logstore
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("up", flush=True)
    logstore.open(sys.argv[1], wait_s=None)
except KeyboardInterrupt:
    print("ended")
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with owner(root):
        words = [sys.executable, "-c", script, str(root)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ) as process:
            assert process.stdout.readline() == "up\n"
            wait_for(lambda: is_waiting(process.pid), 60)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "ended\n"
