"""Our assignors divide 10,000 groups as those of Kafka's Java client do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import assignors

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", [2026, 7, 11])
def test_10_000_groups_are_divided_as_java_does(kafka_jars: Path, seed: int) -> None:
    cases = list(assignors.cases(seed, 10_000))
    answers = assignors.ask_java((case.line() for case in cases), kafka_jars)
    assert len(answers) == 10_000
    mistakes = 0
    different = []
    for case, answer in zip(cases, answers, strict=True):
        if assignors.is_mistaken(case, answer):  # of the sticky ones, in a few groups with claims of old rounds
            mistakes += 1
            continue
        if assignors.plain(case.ours()) != {name: sorted(found) for name, found in answer.items()}:
            different.append(case)
    assert not different, different[0].line()
    assert mistakes < 50


def test_our_bytes_are_javas(kafka_jars: Path) -> None:
    sayings = assignors.sayings(2026, 500)
    answers = assignors.ask_java(map(assignors.line_of_bytes, sayings), kafka_jars)
    for saying, answer in zip(sayings, answers, strict=True):
        assert assignors.are_javas(saying, answer), saying
