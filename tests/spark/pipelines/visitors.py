"""Made-up visitors of a website whose sessions are known, and the sessions of any records, computed without Spark.

A visit is a run of records with pauses below the gap; visits of one visitor are further apart than that. Records
arrive a little out of order, and some hours late, from visitors that did nothing else.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from logstore.spark.pipelines.activity import ACTIVITIES

START_MS = 1_700_000_000_000
GAP_MS = 30 * 60_000
LATENESS_MS = 10 * 60_000


class Event(NamedTuple):
    topic: str
    user: str
    at_ms: int


class Session(NamedTuple):
    user: str
    start_ms: int
    end_ms: int
    events: int
    did: tuple[int, ...]  #: by activity


def visits(seed: int, visitors: int, hours: int = 24) -> list[Event]:
    """Events in the order in which they arrive: by their time, each up to five minutes late."""
    chooser = random.Random(seed)
    arrivals: list[tuple[int, Event]] = []
    for number in range(visitors):
        now = START_MS + chooser.randrange(hours * 3_600_000)
        for _visit in range(chooser.randint(1, 4)):
            for _step in range(chooser.randint(1, 12)):
                event = Event(chooser.choices(ACTIVITIES, (8, 3, 1))[0], f"visitor-{number}", now)
                arrivals.append((now + chooser.randrange(LATENESS_MS // 2), event))
                now += chooser.choice((chooser.randint(1, 60_000), chooser.randint(1, GAP_MS), GAP_MS))
            now += GAP_MS + chooser.randint(1, 3 * 3_600_000)
    return [event for _, event in sorted(arrivals)]


def late(seed: int, count: int) -> list[Event]:
    """Events that come when their own sessions would have been closed for long; each of another millisecond."""
    chooser = random.Random(seed)
    times = chooser.sample(range(START_MS - 8 * 3_600_000, START_MS - 4 * 3_600_000), count)
    return [Event(chooser.choice(ACTIVITIES), f"late-{n % 5}", at) for n, at in enumerate(times)]


def sessions_of(events: Iterable[Event], gap_ms: int = GAP_MS) -> list[Session]:
    """The sessions, by visitor and time."""
    found: list[Session] = []
    by_user: dict[str, list[Event]] = {}
    for event in events:
        by_user.setdefault(event.user, []).append(event)
    for user, own in by_user.items():
        own.sort(key=lambda event: event.at_ms)
        run: list[Event] = []
        for event in own:
            if run and event.at_ms - run[-1].at_ms > gap_ms:
                found.append(_session(user, run))
                run = []
            run.append(event)
        found.append(_session(user, run))
    return sorted(found)


def _session(user: str, run: Sequence[Event]) -> Session:
    did = Counter(event.topic for event in run)
    return Session(user, run[0].at_ms, run[-1].at_ms, len(run), tuple(did[activity] for activity in ACTIVITIES))
