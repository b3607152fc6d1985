"""Our assignors divide 10,000 groups as those of Kafka's Java client do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import assignors

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


def test_10_000_groups_are_divided_as_java_does(kafka_jars: Path) -> None:
    cases = list(assignors.cases(2026, 10_000))
    answers = assignors.ask_java((case.line() for case in cases), kafka_jars)
    assert len(answers) == 10_000
    failed = [answer for answer in answers if "error" in answer]
    assert len(failed) < 50, "Java's sticky assignor fails by itself in a few groups with old claims"
    for case, answer in zip(cases, answers, strict=True):
        if "error" in answer:
            continue
        assert assignors.plain(case.ours()) == {name: sorted(found) for name, found in answer.items()}, case.line()


def test_our_bytes_are_javas(kafka_jars: Path) -> None:
    sayings = assignors.sayings(2026, 500)
    answers = assignors.ask_java(map(assignors.line_of_bytes, sayings), kafka_jars)
    for saying, answer in zip(sayings, answers, strict=True):
        assert assignors.in_bytes(saying) == answer, saying
