"""The producers that a log remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstore import Log
from logstore.batch._encode import encode
from logstore.errors import LogClosedError
from logstore.log.replica import ActiveProducer
from logstore.records import Marker


def test_they_are_those_with_an_id_as_they_last_wrote(tmp_path: Path) -> None:
    def batch(producer_id: int, epoch: int, sequence: int, *, transactional: bool = False) -> bytes:
        return encode(
            [(None, b"AA", 1000 + sequence, None), (None, b"UA", 2000 + sequence, None)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )

    with Log.open(tmp_path / "flights-0") as log:
        log.append([b"without a producer"])
        assert log.replica.active_producers() == []
        log.replica.append_batch(batch(7, 2, 0))
        log.replica.append_batch(batch(7, 2, 2))
        log.replica.append_batch(batch(8, 0, 0, transactional=True))
        expected = [ActiveProducer(7, 2, 3, 2002, -1, None), ActiveProducer(8, 0, 1, 2000, -1, 5)]
        assert sorted(log.replica.active_producers()) == expected
        log.replica.append_control(Marker.COMMIT, producer_id=8, producer_epoch=0, coordinator_epoch=4)
        ended = next(each for each in log.replica.active_producers() if each.producer_id == 8)
        assert (ended.coordinator_epoch, ended.transaction_first_offset) == (4, None)
    with Log.open(tmp_path / "flights-0") as log:
        assert [each[:3] for each in sorted(log.replica.active_producers())] == [(7, 2, 3), (8, 0, 1)]
    with pytest.raises(LogClosedError):
        log.replica.active_producers()
