"""A log asks its gate for room: seldom, before the first byte, and once more when room was made."""

from __future__ import annotations

import pytest

from logstore import Log
from logstore.errors import DiskBudgetError, DiskFullError, ExpectedOffsetError
from logstore.log.space_quota import SpaceQuota, UnlimitedSpace
from logstore.testing import SimDisk


class Counted(SpaceQuota):
    """Grants ``each`` bytes as often as it may, and more once room was made."""

    def __init__(self, each: int, times: int) -> None:
        self.each, self.times = each, times
        self.asked: list[int] = []
        self.made: list[int] = []
        self.gives_space = False

    def reserve(self, needed):
        self.asked.append(needed)
        if not self.times:
            raise DiskBudgetError("no more")
        self.times -= 1
        return max(needed, self.each)

    def reclaim(self, needed):
        self.made.append(needed)
        if self.gives_space:
            self.times += 1
        return self.gives_space


def open_log(quota, **settings):
    return Log.open("/data/flights-0", settings, files=SimDisk(), quota=quota)


def test_it_is_asked_once_for_many_appends():
    quota = Counted(10_000, 1)
    with open_log(quota) as log:
        for _ in range(50):
            log.append([b"x" * 50])
        assert len(quota.asked) == 1
        assert 0 < log.maintenance.reserved_bytes < 10_000 - 50 * 100


def test_its_former_argument_works_with_a_warning():
    quota = Counted(10_000, 1)
    with pytest.warns(DeprecationWarning, match="gate= of Log.open is quota= now") as caught:
        log = Log.open("/data/flights-0", files=SimDisk(), gate=quota)
    assert caught[0].filename == __file__
    with log:
        log.append([b"x" * 50])
    assert len(quota.asked) == 1


def test_without_space_nothing_is_written_and_the_next_append_asks_again():
    quota = Counted(300, 1)
    with open_log(quota) as log:
        log.append([b"x" * 100])
        end, size = log.log_end_offset, log.maintenance.size
        for _ in range(3):
            with pytest.raises(DiskBudgetError):
                log.append([b"x" * 200])
        assert (log.log_end_offset, log.maintenance.size) == (end, size)
        assert len(quota.made) == 3
        assert log.metrics().counters["disk_full"] == 3
        quota.times = 1
        assert log.append([b"x" * 200]).first_offset == end


@pytest.mark.parametrize("tail", ["file", "memory"])
def test_when_space_was_made_the_append_goes_on(tail):
    quota = Counted(200, 1)
    quota.gives_space = True
    with open_log(quota, **{"logstore.tail": tail}) as log:
        for number in range(10):
            assert log.append([b"x" * 150], ack="synced").first_offset == number
        assert quota.made
        assert [record.offset for record in log.scan()] == list(range(10))


def test_a_condition_is_looked_at_again_when_space_was_made():
    class Sneaking(Counted):
        def reclaim(self, needed):
            # As if another thread had appended while this one held no lock.
            self.times, self.gives_space = 2, True
            log.append([b"between"])
            return True

    quota = Sneaking(200, 1)
    with open_log(quota) as log:
        log.append([b"x" * 100])
        with pytest.raises(ExpectedOffsetError):
            log.append([b"x" * 200], expect=1)
        assert [record.value for record in log.scan()] == [b"x" * 100, b"between"]


def test_ready_batches_are_retried_too():
    quota = Counted(200, 1)
    quota.gives_space = True
    with open_log(UnlimitedSpace()) as source:
        source.append([b"x" * 150])
        batch = source.read(0).data
    with open_log(quota) as log:
        for number in range(5):
            assert log.replica.append_batch(batch).first_offset == number


def test_the_unlimited_quota_makes_no_space():
    assert not UnlimitedSpace().reclaim(1)
    assert UnlimitedSpace().reserve(1 << 40) >= 1 << 40
    disk = SimDisk(capacity=100_000)
    with Log.open("/data/flights-0", files=disk) as log:
        with pytest.raises(DiskFullError):
            log.append([b"x" * 5000] * 100)
        assert log.log_end_offset == 0
