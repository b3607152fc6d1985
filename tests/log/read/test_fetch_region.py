"""A fetch of one moment: the region is what a read returns, up to the end that its caller may see."""

from __future__ import annotations

import itertools
import random
import threading

import pytest

from logstore.errors import InvalidSettingError, LogClosedError, OffsetOutOfRangeError
from logstore.log import FixedPolicy, Marker, Moves, ProducerStamp
from logstore.records import Isolation
from logstore.testing import FaultyFiles
from tests.log.logs import one_batch, open_log

UNCOMMITTED, COMMITTED = Isolation


def filled(log):
    """Batches of several sizes, an aborted, a committed and an open transaction; five offsets not yet visible."""
    rng = random.Random(4)
    for number in range(40):
        log.append([rng.randbytes(rng.randrange(200)) for _ in range(rng.randrange(1, 5))])
        if number in (10, 20, 30):
            log.append([b"in a transaction"], producer=ProducerStamp(number, 0, 0, True))
        if number in (15, 25):
            marker = Marker.ABORT if number == 15 else Marker.COMMIT
            log.replica.append_control(marker, producer_id=number - 5, producer_epoch=0)
    log.replica.set_policy(FixedPolicy(Moves.FROM_OUTSIDE))
    log.append([b"above the high watermark"] * 5)


@pytest.mark.parametrize("settings", [{}, {"segment_bytes": 700}])
@pytest.mark.parametrize("isolation", list(Isolation))
def test_it_has_what_a_read_has(tmp_path, settings, isolation):
    with open_log(tmp_path, **settings) as log:
        filled(log)
        log.delete_before(7)
        end = log.end_offset(isolation)
        for offset in range(7, end + 1):
            for max_bytes in (1, 300, 2_000, 1 << 20):
                read = log.read(offset, max_bytes=max_bytes, isolation=isolation)
                found = log.replica.fetch_region(offset, max_bytes=max_bytes, isolation=isolation)
                assert found[1:5] == (7, log.last_stable_offset, log.high_watermark, log.log_end_offset)
                assert list(found.aborted) == list(read.aborted)
                if found.region is None:
                    assert not read.data
                    continue
                assert found.region.read() == read.data
                small = log.replica.fetch_region(
                    offset, max_bytes=max_bytes, isolation=isolation, at_least_one=False
                )
                if found.region.size > max_bytes:
                    assert small == found._replace(region=None, aborted=())
                else:
                    assert small.region is not None
        for offset in (6, end + 1):
            with pytest.raises(OffsetOutOfRangeError):
                log.replica.fetch_region(offset, isolation=isolation)


@pytest.mark.parametrize("settings", [{}, {"segment_bytes": 700}])
def test_the_compiled_fetch_and_its_steps_in_python_do_the_same(tmp_path, monkeypatch, settings):
    with open_log(tmp_path, **settings) as log:
        filled(log)
        log.delete_before(7)
        options = itertools.product(
            (*range(5, log.log_end_offset + 2), -1, 2**62, 2**70),
            (-1, 0, 300, 1 << 20),
            (True, False),
            ("read_uncommitted", Isolation.READ_COMMITTED),
            (True, False),
        )

        def outcome(offset, max_bytes, at_least_one, isolation, to_log_end):
            try:
                found = log.replica.fetch_region(
                    offset,
                    max_bytes=max_bytes,
                    at_least_one=at_least_one,
                    isolation=isolation,
                    to_log_end=to_log_end,
                )
            except OffsetOutOfRangeError as error:
                return str(error)
            region = found.region
            return found[1:], region and (region.base_offset, region.next_offset, region.read())

        every = list(options)
        compiled = [outcome(*each) for each in every]
        monkeypatch.setattr(type(log._state), "_fetch_region", lambda *_: None, raising=False)
        assert compiled == [outcome(*each) for each in every]


def test_a_word_that_is_no_isolation_is_refused(tmp_path):
    with open_log(tmp_path) as log:
        for wrong in ("committed", None, 1):
            with pytest.raises(InvalidSettingError, match="isolation: expected 'read_uncommitted'"):
                log.replica.fetch_region(0, isolation=wrong)


def test_a_follower_reads_up_to_the_log_end(tmp_path):
    with open_log(tmp_path) as log:
        filled(log)
        visible, end = log.high_watermark, log.log_end_offset
        assert end == visible + 5
        assert log.replica.fetch_region(visible).region is None
        found = log.replica.fetch_region(visible, to_log_end=True)
        assert (found.region.base_offset, found.region.next_offset) == (visible, end)
        assert log.replica.fetch_region(end, to_log_end=True).region is None
        with pytest.raises(OffsetOutOfRangeError):
            log.replica.fetch_region(end)
        with pytest.raises(OffsetOutOfRangeError):
            log.replica.fetch_region(end + 1, to_log_end=True)
    with pytest.raises(LogClosedError):
        log.replica.fetch_region(0)


def test_a_follower_waits_at_the_log_end(tmp_path):
    with open_log(tmp_path, policy=FixedPolicy(Moves.FROM_OUTSIDE)) as log:
        assert not log.replica.wait_for(0, timeout_s=0.001)
        found = []
        thread = threading.Thread(target=lambda: found.append(log.replica.wait_for(0, timeout_s=300)))
        thread.start()
        log.append([b"not visible"])
        thread.join()
        assert found == [True]
        assert not log.wait_for(0, timeout_s=0)
        closing = threading.Thread(target=lambda: found.append(log.replica.wait_for(9, timeout_s=300)))
        closing.start()
    closing.join()
    assert found == [True, False]


@pytest.mark.parametrize("kib", [1, 4, 16, 512])
def test_a_fetch_of_one_mebibyte_takes_two_calls_at_most(tmp_path, kib):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        batch = one_batch([bytes(kib * 1024 - 80)])
        count = 4 * 1024 // kib
        for _ in range(count):
            log.replica.append_batch(batch)
        for offset in (0, 1, count // 3, count // 2, count - 1):
            before = files.counts()
            found = log.replica.fetch_region(offset, max_bytes=1 << 20)
            after = files.counts()
            assert found.region.size > min(1 << 19, (count - offset) * len(batch) - 1)
            assert {name: after[name] - before[name] for name in after if after[name] != before[name]}.keys() <= {
                "preadv"
            }
            assert after["preadv"] - before["preadv"] <= 2


def test_a_fetch_that_goes_on_reads_once_and_one_of_the_rest_not_at_its_end(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        batch = one_batch([bytes(900)])
        for _ in range(3_000):
            log.replica.append_batch(batch)
        offset, calls, sizes = 0, [], 0
        while offset < log.high_watermark:
            before = files.counts()["preadv"]
            region = log.replica.fetch_region(offset, max_bytes=1 << 20).region
            calls.append(files.counts()["preadv"] - before)
            assert region.base_offset == offset
            offset, sizes = region.next_offset, sizes + region.size
        assert sizes == log.maintenance.size
        assert (calls[0], max(calls[1:]), calls[-1]) == (2, 1, 0)


def test_where_a_region_ended_is_forgotten_by_a_truncation(tmp_path):
    with open_log(tmp_path) as log:
        rng = random.Random(8)

        def check(offset: int) -> int:
            read = log.read(offset, max_bytes=2_000)
            found = log.replica.fetch_region(offset, max_bytes=2_000).region
            assert (found.read(), found.next_offset) == (read.data, read.next_offset)
            return found.next_offset

        ends: list[int] = []
        for _ in range(60):
            while log.maintenance.size < 30_000:
                log.append([rng.randbytes(rng.randrange(300)) for _ in range(rng.randrange(1, 9))])
            # The newest first: in their order, each end would be found again before it is used.
            for offset in reversed([end for end in ends if end < log.log_end_offset]):
                check(offset)
            ends = [0]
            while ends[-1] < log.log_end_offset:
                ends.append(check(ends[-1]))
            log.replica.truncate_to(rng.randrange(log.log_end_offset // 2))


def test_the_marks_are_in_order_while_others_append_and_truncate(tmp_path):
    """Moments between two marks would show a last stable offset above the high watermark."""
    with open_log(tmp_path, segment_bytes=5_000) as log:
        done = threading.Event()

        def change() -> None:
            rng = random.Random(1)
            for number in range(1_500):
                log.append([b"v"] * 3)
                if number % 100 == 99:
                    log.replica.truncate_to(rng.randrange(log.log_start_offset, log.log_end_offset))
            done.set()

        thread = threading.Thread(target=change)
        thread.start()
        seen = 0
        while not done.is_set():
            try:
                found = log.replica.fetch_region(log.log_start_offset, to_log_end=True, max_bytes=500)
            except OffsetOutOfRangeError:
                continue
            assert found.log_start_offset <= found.last_stable_offset <= found.high_watermark
            assert found.high_watermark <= found.log_end_offset
            if found.region is not None:
                assert found.region.next_offset <= found.log_end_offset
            seen += 1
        thread.join()
        assert seen
