"""How a log arrives that was opened again after it had failed."""

from __future__ import annotations

from typing import Any

import pytest

from logstore.log.formats.last_stop import Stop
from logstore.replication.api import NO_NODE, PartitionState
from logstore.replication.placement import Arrival, InSyncPlacement

STATE = PartitionState(replicas=(1, 2, 3), isr=(2,), leader=2, leader_epoch=9)


class Replica:
    """As much of a replica as a placement asks."""

    state: PartitionState | None = None

    def apply(self, state: PartitionState, now_ms: int) -> None:
        self.state = state

    def propose(self, lives: Any, now_ms: int) -> None:
        return None


def placed(arrival: Arrival) -> InSyncPlacement:
    return InSyncPlacement(Replica(), 1, arrival, min_insync=1, allows_unclean=False)


@pytest.mark.parametrize("is_same_disk", [False, True])
def test_a_log_that_fails_before_it_has_entered_is_no_better_than_it_was(is_same_disk):
    placement = placed(Arrival(is_same_disk, Stop.UNCLEAN, asked_in_epoch=7))
    assert placement.arrival_again(Stop.CLEAN) == Arrival(is_same_disk, Stop.UNCLEAN, 7)
    assert placement.arrival_again(Stop.NEW) == Arrival(is_same_disk, Stop.NEW, 7)


def test_a_log_that_fails_after_it_has_entered_counts_with_the_epoch_in_which_it_has_asked():
    placement = placed(Arrival(False, Stop.NEW))
    assert STATE.leader != NO_NODE
    placement.take(STATE, {1: 1, 2: 1, 3: 1}, 0)
    assert placement.has_entered
    assert placement.arrival_again(Stop.UNCLEAN) == Arrival(True, Stop.UNCLEAN, 9)
