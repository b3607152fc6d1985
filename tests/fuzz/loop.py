"""The inner loop: makes inputs, hands them to a parser and sorts what comes back.

Inputs come in blocks with a generator of their own, so that any one is made again by making its
block up to it. An exception that the target does not document is a finding.
"""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.fuzz.mutate import Mutator
from tests.fuzz.targets import Make, Target

BLOCK = 1_000  #: inputs of one generator
TAKEN = "taken"  #: what is counted where nothing is raised


class Finding(NamedTuple):
    """An input that a parser neither took nor refused in its own words."""

    number: int
    data: bytes
    what: str  #: the class of the exception, or what became of the process
    report: str


def inputs(target: Target, make: Make, seed: int, first: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The inputs [first, end) of a target and seed, with their numbers."""
    number = first - first % BLOCK
    while number < end:
        m = Mutator(random.Random(f"{target.name}/{seed}/{number // BLOCK}"))
        for _ in range(min(BLOCK, end - number)):
            data = make(m)
            if number >= first:
                yield number, data
            number += 1


def one_input(target: Target, seed: int, number: int) -> bytes:
    """Make a single input again."""
    return next(data for _, data in inputs(target, target.prepare(), seed, number, number + 1))


def feed(
    target: Target, make: Make, seed: int, first: int, end: int, note: Callable[[int], None] | None = None
) -> tuple[Counter[str], list[Finding]]:
    """Hand the inputs [first, end) to the parser; ``note`` is told the number of each before it goes."""
    counts: Counter[str] = Counter()
    findings = []
    read, refusals = target.read, target.refusals
    for number, data in inputs(target, make, seed, first, end):
        if note is not None:
            note(number)
        try:
            read(data)
        except refusals as error:
            counts[type(error).__name__] += 1
        except Exception as error:  # noqa: BLE001  # whatever else it is, it is what we look for
            counts[f"({type(error).__name__})"] += 1
            findings.append(Finding(number, data, type(error).__name__, traceback.format_exc()))
        else:
            counts[TAKEN] += 1
    return counts, findings
