"""Batches that a loop offers to a log: appended at once, or not at all."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logstore import Log
from logstore.errors import StorageFailedError
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.rolling import worker
from logstore.log.state import State
from logstore.records import AppendResult
from logstore.testing import FaultyFiles, ManualClock
from tests.crash.planted import must_break
from tests.kit.inside import state_of
from tests.kit.rolling import HeldTasks
from tests.kit.waiting import wait_for
from tests.log.append.failing_calls import check_kept, each_call_fails
from tests.log.append.test_append_batch import contents, outcome
from tests.log.append.test_append_turn import TURN_CONFIGS, of_producer, turns
from tests.log.logs import NOW_MS, one_batch, open_log, values_of


def test_batches_take_one_write_and_no_sync(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        log.append([b"first"])
        offers = log.replica.offers()
        offers.offer([of_producer(7, 0, [b"a", b"b"])])  # the producer is known from here on
        before = files.counts()
        results = offers.offer([one_batch([b"c", b"d"]), of_producer(7, 2, [b"e"]), one_batch([b"f"])])
        after = files.counts()
        assert [(each.first_offset, each.last_offset) for each in results] == [(3, 4), (5, 5), (6, 6)]
        changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        # One for the batches, one for readers in other processes.
        assert set(changed) == {"pwrite"}
        assert changed["pwrite"] <= 2
        assert values_of(log) == [b"first", b"a", b"b", b"c", b"d", b"e", b"f"]


@pytest.mark.filterwarnings("ignore::logstore.errors.RetentionWarning")
@pytest.mark.parametrize("config", TURN_CONFIGS, ids=str)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.lists(turns(), max_size=3))
def test_what_is_taken_is_what_an_append_gives_and_the_rest_is_not_touched(
    tmp_path_factory: pytest.TempPathFactory, config: dict[str, object], given: list[list[bytes]]
) -> None:
    home = tmp_path_factory.mktemp("offers")
    logs = [open_log(Path(home) / side, clock=ManualClock(NOW_MS), **config) for side in ("offers", "single")]
    try:
        for log in logs:
            log.append([(b"k", b"v")])
        offers = logs[0].replica.offers()
        for turn in given:
            left = list(turn)
            while left:
                end = logs[0].log_end_offset
                taken = offers.offer(left)
                assert taken == [outcome(logs[1], bytearray(batch)) for batch in left[: len(taken)]]
                left = left[len(taken) :]
                assert logs[0].log_end_offset == (taken[-1].last_offset + 1 if taken else end)
                if left:  # by the steps that may wait
                    assert outcome(logs[0], bytearray(left[0])) == outcome(logs[1], bytearray(left[0]))
                    left.pop(0)
        for log in logs:
            log.flush()
        assert contents(logs[0]) == contents(logs[1])
    finally:
        for log in logs:
            log.close()


def test_a_lock_that_another_thread_holds_is_not_waited_for(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"first"])
        found: list[object] = []
        with state_of(log).lock:
            thread = threading.Thread(target=lambda: found.append(log.replica.offers().offer([one_batch([b"x"])])))
            thread.start()
            thread.join(20)
            assert found == [[]]
        assert len(log.replica.offers().offer([one_batch([b"x"])])) == 1
        assert values_of(log) == [b"first", b"x"]


def test_a_roll_a_sync_and_the_first_append_are_left(tmp_path):
    with open_log(tmp_path / "new") as log:
        assert log.replica.offers().offer([one_batch([b"x"])]) == []
    with open_log(tmp_path / "rolls", segment_bytes=2_000) as log:
        log.append([bytes(1_500)])
        assert log.replica.offers().offer([one_batch([bytes(1_000)])]) == []
        assert log.replica.append_batch(one_batch([bytes(1_000)])).first_offset == 1
    with open_log(tmp_path / "synced", ack="synced") as log:
        log.append([b"first"])
        assert log.replica.offers().offer([one_batch([b"x"])]) == []
        assert log.log_end_offset == 1


def test_batches_behind_one_that_is_wrong_are_left(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"first"])
        wrong = one_batch([b"wrong"])[:-1]
        results = log.replica.offers().offer([one_batch([b"a"]), wrong, one_batch([b"b"])])
        assert results == [AppendResult(1, 1, -1)]
        assert values_of(log) == [b"first", b"a"]


def test_a_closed_log_takes_nothing(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"first"])
        offers = log.replica.offers()
    assert offers.offer([one_batch([b"x"])]) == []
    assert offers.offer([]) == []


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_each_call_of_an_offer_fails_once(error):
    batches = [one_batch([b"%d" % n]) for n in range(12)]

    def offered(log):
        try:
            taken = log.replica.offers().offer(batches)
        except StorageFailedError:
            taken = []
        # A caller that may wait appends the others, and is told what is wrong.
        return [*taken, *log.replica.append_turn(batches[len(taken) :])]

    for log, files, results in each_call_fails(error, lambda log: log.append([b"first"]), offered):
        check_kept(log, files, results)


class _Threads:
    """Names the thread of each change of a file of leader epochs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[str] = []
        save = Epochs.save

        def saved(table: Epochs, *given: object, **options: object) -> None:
            self.found.append(threading.current_thread().name)
            save(table, *given, **options)

        monkeypatch.setattr(Epochs, "save", saved)


def epochs_of_another_thread(log: Log) -> None:
    """Leave unsaved epochs behind: another thread has appended, and has not come to save them."""
    state = state_of(log)
    state.epochs.is_saved = False
    state.ask_follow_up()


def the_loop_saves_no_epochs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = _Threads(monkeypatch)
    monkeypatch.setattr(worker, "worker_of", lambda files: worker.THREADS)
    with open_log(path) as log:
        log.append([b"first"])
        threads.found.clear()
        epochs_of_another_thread(log)
        assert len(log.replica.offers().offer([one_batch([b"x"])])) == 1
        wait_for(lambda: state_of(log).epochs.is_saved, 60)
        assert threads.found == ["logstore-rolls"], "a file was written in the thread of the loop"
        assert not state_of(log).has_work


def test_leader_epochs_are_saved_by_another_thread(tmp_path, monkeypatch):
    the_loop_saves_no_epochs(tmp_path, monkeypatch)


def test_planted_epochs_saved_in_the_loop_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(State, "leave_follow_up", State.follow_up)
    must_break("in the thread of the loop", lambda: the_loop_saves_no_epochs(tmp_path, monkeypatch))


def test_epochs_left_to_the_background_are_not_written_into_a_log_that_was_opened_again(tmp_path, monkeypatch):
    tasks = HeldTasks()
    monkeypatch.setattr(worker, "worker_of", lambda files: tasks)
    with open_log(tmp_path) as log:
        log.append([b"first"])
        epochs_of_another_thread(log)
        log.replica.offers().offer([one_batch([b"x"])])
    with open_log(tmp_path) as log:
        log.replica.begin_epoch(9)
        threads = _Threads(monkeypatch)
        tasks.run()
        assert threads.found == []
    with open_log(tmp_path) as log:
        assert log.replica.leader_epoch == 9
