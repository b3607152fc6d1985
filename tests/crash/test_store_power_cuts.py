"""Power cuts in the life of a store: topics are made, changed, grown and deleted whole or not at all.

What each partition's log has to keep is asked in `test_power_cuts`; here it is what stands around the logs: the
catalogue, the directories, the checkpoints of the root. Bugs that are planted into it are found.
"""

from __future__ import annotations

import random

import pytest

from logstore.errors import LogstoreError
from logstore.log.files import Directory
from logstore.store import layout
from logstore.store.catalogue import Catalogue, TopicState
from logstore.store.topics import Topics
from logstore.testing import SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.store_life import StoreLife, check

pytestmark = [pytest.mark.crash, pytest.mark.row("S20")]


class Violation(AssertionError):
    """Something was lost, half made, or came back; with all that repeats it."""


def cut_everywhere(*, seed: int = 1, draws: int = 1, most: int | None = None) -> int:
    """Cut the power after every operation of a life, by every policy; how many states were examined."""
    rng = random.Random(seed)
    life = StoreLife(SimDisk(seed))
    seen: set[tuple[int, int]] = set()
    for at, moment in enumerate(life.run()):
        for policy in POLICIES:
            for _ in range(draws if moment.disk.pending else policy == "none"):
                cut = rng.getrandbits(63)
                after = moment.disk.crash(policy, seed=cut, page_bytes=512)
                key = after.state_hash(), id(moment.after)
                if key in seen:
                    continue
                seen.add(key)
                try:
                    check(after, moment.before, moment.after, write_on=rng.random() < 0.3)
                except (AssertionError, LogstoreError) as error:
                    raise Violation(f"moment {at}, {moment.step}: crash({policy!r}, seed={cut}): {error!r}") from error
        if most is not None and len(seen) >= most:
            break
    return len(seen)


def test_every_power_cut_leaves_topics_whole():
    states = cut_everywhere()
    print(f"{states} states")
    assert states > 500
