"""Every bug that is planted into the rules of replication is found: by seeds of the simulator, or by a scenario.

A scenario is for what seeds find too seldom; the reason stands beside it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, NamedTuple

import pytest

from logstore.replication.controller import CommandGate
from logstore.replication.insync import InSyncReplica
from logstore.replication.local.local_registry import LocalRegistry
from logstore.testing.cluster.ledger import InvariantError
from logstore.testing.cluster.life import live
from tests.replication import plants
from tests.replication.scenario import play
from tests.replication.test_scenarios import SCENARIOS

BY_NAME = {path.stem: path for path in SCENARIOS}


class BySeeds(NamedTuple):
    """A plant that the simulator finds, by an invariant. ``first`` is a seed shortly before one that does."""

    settings: dict[str, Any]
    name: str
    first: int = 0
    registry: type[LocalRegistry] = LocalRegistry


class ByScenario(NamedTuple):
    """A plant that changes what a scenario prints."""

    scenario: str
    told: str  #: a line that the scenario must not print
    replica: type[InSyncReplica] = InSyncReplica
    registry: type[LocalRegistry] = LocalRegistry
    gate: type[CommandGate] = CommandGate


FOUND_BY_SEEDS = {
    "KIP-101": BySeeds(plants.with_replica(plants.CutsByHighWatermark), "I9"),
    "no epochs compared": BySeeds(plants.with_replica(plants.ComparesNoEpochs), "I2"),
    "a copy begins above the log start": BySeeds(
        {**plants.with_replica(plants.LeavesAGap), "deletes": True}, "I12", 25
    ),
    "KIP-279": BySeeds(plants.with_replica(plants.TakesTheLeadersEnd), "I9"),
    "KIP-903": BySeeds(plants.with_replica(plants.JoinsInAnyLife), "I8"),
    "KIP-966": BySeeds({"make_placement": partial(plants.TakesEveryStopForClean, min_insync=2)}, "I10"),
    "a log that has failed keeps its place": BySeeds(
        {"make_placement": partial(plants.TrustsAnOpenedLog, min_insync=2)}, "I10"
    ),
    "high watermark below the minimum": BySeeds(plants.with_replica(plants.MovesBelowTheMinimum), "I7"),
    "a region's end is trusted": BySeeds(plants.with_replica(plants.TrustsARegionsEnd), "I6"),
    "deleted keys come back": BySeeds({**plants.with_replica(plants.RevivesDeletedKeys), "compacts": True}, "I3"),
    "acks kept over an epoch": BySeeds(plants.with_replica(plants.KeepsAcks), "I4"),
    "ack before the smaller ISR is stored": BySeeds(plants.with_replica(plants.AcksBeforeTheSmallerIsr), "I6"),
    "joins behind the high watermark": BySeeds(plants.with_replica(plants.JoinsBehind), "I8"),
    "compare-and-set ignored": BySeeds({}, "I1", registry=plants.IgnoresVersions),
    "zombie controller obeyed": BySeeds({"controllers": 2}, "I11", 0, plants.IgnoresControllerEpochs),
    "commands of a zombie controller obeyed": BySeeds(
        {"controllers": 2, "make_gate": plants.ObeysEveryController}, "I11", 5
    ),
    "quorum without sync": BySeeds(plants.quorum(plants.AsksBeforeTheSync), "I3", 14),
    "shortest log elected": BySeeds(plants.quorum(placement=plants.ElectsTheShortest), "I3"),
}

#: Those of them that seeds find, too, show with which lines it happens.
FOUND_BY_SCENARIOS = {
    # Needs two leaders in turn without a common follower, and a third replica that has followed both.
    "KIP-279": ByScenario(
        "kip279_unknown_epoch",
        "    3 follower: 0:1=a 1:3=b3 2:3=c3 3:3=d3 4:4=f4; high watermark 5 of 5; epochs 1@0 3@1 4@4",
        plants.TakesTheLeadersEnd,
    ),
    # Needs an answer of the old leader that arrives between a follower's new state and its first new question,
    # and whose records fit the end of its log.
    "late writes after fencing": ByScenario(
        "zombie_leader",
        "    3 follower: 0:1=a 1:1=b 2:1=c; high watermark 1 of 3; epochs 1@0",
        plants.AnswersEveryEpoch,
    ),
    # The harm needs the ISR at one, records with acks=1 that are read, and then the loss of just that disk.
    "high watermark below the minimum": ByScenario(
        "kip966_last_replica_standing",
        "    1 leader: 0:1=a 1:1=b 2:1=c 3:1=e; high watermark 4 of 4; epochs 1@0",
        plants.MovesBelowTheMinimum,
    ),
    # Seeds find it in none of 500 lives: all copies have the same wrong epochs.
    "epoch not noted": ByScenario(
        "epoch_is_noted",
        "    1 follower: 0:0=a; high watermark 1 of 1; epochs 0@0",
        plants.NotesNoEpoch,
    ),
    # The harm needs a commit on its way, from the moment of the reading on, while another node is elected.
    "compare-and-set ignored": ByScenario(
        "zombie_leader", "    epoch 1: leader 1, isr 1, eligible 2 3", registry=plants.IgnoresVersions
    ),
    # The lives of test_controller_lives find both, too.
    "zombie controller obeyed": ByScenario(
        "zombie_controller", "    epoch 1: leader 1, isr 1 2", registry=plants.IgnoresControllerEpochs
    ),
    "commands of a zombie controller obeyed": ByScenario(
        "zombie_controller", "    2 obeys", gate=plants.ObeysEveryController
    ),
}


@pytest.mark.parametrize("plant", FOUND_BY_SEEDS.values(), ids=FOUND_BY_SEEDS)
def test_seeds_find_a_planted_bug(plant, caplog):
    caplog.set_level(logging.CRITICAL)
    for seed in range(plant.first, plant.first + 500):
        try:
            live(seed, connect=plant.registry().connect, **plant.settings)
        except InvariantError as error:
            if str(error).startswith(f"{plant.name} "):
                return
    pytest.fail(f"500 lives did not find the planted bug by {plant.name}")


@pytest.mark.parametrize("plant", FOUND_BY_SCENARIOS.values(), ids=FOUND_BY_SCENARIOS)
def test_a_scenario_finds_a_planted_bug(plant):
    path = BY_NAME[plant.scenario]
    written = path.read_text().splitlines()
    printed = play(path, plant.replica, plant.registry(), plant.gate).splitlines()
    assert printed.count(plant.told) > written.count(plant.told), "\n".join(printed)


def test_lives_whose_clocks_jump_find_a_lag_by_the_wall_clock():
    settings = plants.with_replica(plants.LagsByTheWallClock)
    for seed in range(20):
        traces = [live(seed, seconds=4, clocks_jump=jump, **settings).world.trace for jump in (True, False)]
        if traces[0] != traces[1]:
            return
    pytest.fail("twenty lives did not find that the wall clock decides which followers lag")
