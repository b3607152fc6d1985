"""The offset at which a group resumes: that of its commit, or the end of the epoch that it has read."""

from __future__ import annotations

import logging
from typing import NamedTuple

import pytest

from logstore.groups.resume import not_behind_its_epoch
from logstore.records import TopicPartition


class Partition(NamedTuple):
    """A partition whose epochs end at these offsets."""

    ends: dict[int, int]
    log_start_offset: int = 0
    name: TopicPartition = TopicPartition("flights", 3)

    def _end_of_epoch(self, epoch: int) -> int | None:
        return self.ends.get(epoch)


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [(10, 2, 10), (20, 2, 20), (21, 2, 20), (21, -1, 21), (21, 7, 21), (4, 1, 4), (9, 1, 5)],
    ids=["before the end", "at the end", "behind it", "no epoch", "unknown epoch", "older", "behind an older end"],
)
def test_a_group_resumes_at_its_offset_or_where_its_epoch_ended(offset, epoch, expected):
    assert not_behind_its_epoch(Partition({1: 5, 2: 20}), offset, epoch) == expected


def test_records_that_were_replaced_are_named_in_the_log(caplog):
    with caplog.at_level(logging.WARNING, logger="logstore"):
        assert not_behind_its_epoch(Partition({1: 5}, log_start_offset=8), 9, 1) == 8
    assert "partition=flights-3 offset=9 epoch=1 new_offset=5" in caplog.text
