"""Every file of a store is deleted, emptied, cut or replaced by yesterday's, alone and in pairs.

What was acknowledged is read back, or an error or `doctor` names the loss, or the file was a hint and is made
again. Nothing is ever silently shorter, longer or older. `EXPECTED` says what becomes of which kind of file, and
docs/durability.md shows it; ``python -m tests.crash.test_lost_files`` tries all of it and writes both.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from logstore.client.backend.findings import Finding, Level
from logstore.log.formats.checkpoints import PUBLISHED
from logstore.log.formats.transaction_index import Note
from logstore.log.recovery import recovery
from logstore.store.catalog import topic_list
from logstore.testing import SimDisk
from tests.crash.histories import seeded
from tests.crash.losses import (
    CUT,
    CUT_INSIDE,
    DELETED,
    EMPTIED,
    EVERYWHERE,
    OLDER,
    ROOT,
    Built,
    Fault,
    Observed,
    Refused,
    build,
    faults_of,
    observe,
)
from tests.kit.inside import believe_published

pytestmark = [pytest.mark.crash, pytest.mark.row("S8"), pytest.mark.row("S20", part="what is missing is told")]

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "durability.md"
BEGIN, END = "<!-- lost files: begin -->", "<!-- lost files: end -->"

#: How many pairs of faults are tried; "all": each pair of files that can have to do with each other.
PAIRS: Final = os.environ.get("LOGSTORE_LOST_PAIRS", "100")

STATES: Final = ("closed", "killed")
WHATS: Final = (DELETED, EMPTIED, CUT, CUT_INSIDE, OLDER)

#: What became of a fault, the worst last. Only the last one is a bug.
HARMLESS, NAMED, REFUSED, DOCTOR, SILENT = ".", "n", "o", "d", "!"
NO_FAULT: Final = "-"  #: there is no such file in that state, or no such place in it
WORDS: Final = {
    HARMLESS: "nothing is lost",
    NAMED: "an error names it",
    REFUSED: "the store does not open",
    DOCTOR: "`doctor` names it",
    SILENT: "SILENT",
}

#: Kinds of files, by their paths below the root; the first that matches counts.
KINDS: Final = (
    ("`.log` of `__consumer_offsets`", r"__consumer_offsets-\d/\d+\.log"),
    ("`.log` of `__logstore_sinks`", r"__logstore_sinks-\d/\d+\.log"),
    ("`.log`, compacted", r"keys-0/\d+\.log"),
    ("`.log`", r".*/\d+\.log"),
    ("`logstore.after-N` with records", r"flights-1/logstore\.after-\d+"),
    ("`logstore.after-N`", r".*/logstore\.after-\d+"),
    ("`.index`, `.timeindex`", r".*/\d+\.(time)?index"),
    ("`.txnindex`", r".*/\d+\.txnindex"),
    ("`.snapshot`, `logstore.producers`", r".*/(\d+\.snapshot|logstore\.producers)"),
    ("`leader-epoch-checkpoint`", r".*/leader-epoch-checkpoint"),
    ("`partition.metadata`", r".*/partition\.metadata"),
    ("`logstore.recovery`", r".*/logstore\.recovery"),
    ("`logstore.start`", r".*/logstore\.start"),
    ("`logstore.published`", r".*/logstore\.published"),
    ("`logstore.compacted`", r".*/logstore\.compacted"),
    ("`logstore.dropped`", r".*/logstore\.dropped"),
    ("`logstore.aborted`", r".*/logstore\.aborted"),
    ("`logstore.topics`", r"logstore\.topics"),
    ("`logstore.newest`", r"logstore\.newest"),
    ("`logstore.reserve`", r"logstore\.reserve"),
    ("`meta.properties`", r"meta\.properties"),
    ("Kafka's checkpoints, `logstore.checkpoints`", r"(.*-checkpoint|logstore\.checkpoints)"),
    ("`.kafka_cleanshutdown`, `.lock`", r"\.kafka_cleanshutdown|\.lock"),
)

#: What may become of each fault: of a closed store for writing, read-only, of a killed one for writing, read-only.
EXPECTED: Final[dict[str, dict[str, str]]] = {
    "`.log` of `__consumer_offsets`": {
        "deleted": "n n n n",
        "emptied": "n n n n",
        "cut": "n n n n",
        "cut inside": "n n n n",
    },
    "`.log` of `__logstore_sinks`": {
        "deleted": "n . n .",
        "emptied": "n . n .",
        "cut": "n . .n .",
        "cut inside": "n . . .",
    },
    "`.log`, compacted": {"deleted": "n n n n", "emptied": "n n n n", "cut": "n n n n", "cut inside": "n n n n"},
    "`.log`": {"deleted": "n n n n", "emptied": "n n n n", "cut": "n n n n", "cut inside": "n n n n"},
    "`logstore.after-N` with records": {"deleted": "- - d n", "emptied": "- - d n", "cut inside": "- - d n"},
    "`logstore.after-N`": {"deleted": "- - . ."},
    "`.index`, `.timeindex`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . . .",
    },
    "`.txnindex`": {"deleted": ". . . .", "emptied": ". . . .", "cut inside": ". . . ."},
    "`.snapshot`, `logstore.producers`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . . .",
    },
    "`leader-epoch-checkpoint`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . . .",
    },
    "`partition.metadata`": {"deleted": ". . . .", "emptied": ". . . .", "cut inside": ". . . ."},
    "`logstore.recovery`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . .n .",
    },
    "`logstore.start`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . . .",
    },
    "`logstore.published`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . . .",
    },
    "`logstore.compacted`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . . .",
    },
    "`logstore.dropped`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
    },
    "`logstore.aborted`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . . .",
    },
    "`logstore.topics`": {
        "deleted": "o o o o",
        "emptied": "o o o o",
        "cut": "o o o o",
        "cut inside": "o o o o",
        "yesterday's": "o o o o",
    },
    "`logstore.newest`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . . .",
    },
    "`logstore.reserve`": {"deleted": ". . . .", "emptied": ". . . .", "cut inside": ". . . ."},
    "`meta.properties`": {"deleted": ". . . .", "emptied": ". . . .", "cut inside": ". . . ."},
    "Kafka's checkpoints, `logstore.checkpoints`": {
        "deleted": ". . - -",
        "emptied": ". . - -",
        "cut inside": ". . - -",
    },
    "`.kafka_cleanshutdown`, `.lock`": {
        "deleted": ". . . .",
        "emptied": ". . . .",
        "cut inside": ". . . .",
        "yesterday's": ". . . .",
    },
}


@functools.cache
def built() -> Built:
    return build()


@functools.cache
def yesterday() -> dict[str, bytes]:
    return built().yesterday.image(ROOT)


@functools.cache
def reference(state: str, read_only: bool) -> Observed:
    return observe(disk_of(state).kill(), built(), read_only=read_only)


@functools.cache
def after_a_power_cut(read_only: bool) -> Observed:
    return observe(disk_of("killed").crash("none"), built(), read_only=read_only)


def disk_of(state: str) -> SimDisk:
    return getattr(built(), state)


def all_faults(state: str) -> Iterator[Fault]:
    for path, data in disk_of(state).image(ROOT).items():
        yield from faults_of(path, data, yesterday())


def kind_of(fault: Fault) -> str:
    below = fault.path.removeprefix(ROOT + "/")
    return next(kind for kind, pattern in KINDS if re.fullmatch(pattern, below))


def partition_of(fault: Fault) -> str:
    """The directory of the partition that a file is in; "" for a file of the root."""
    directory, _, _ = fault.path.removeprefix(ROOT + "/").rpartition("/")
    return directory


class Judged(NamedTuple):
    """What became of one or two faults."""

    outcome: str
    why: str


def tried(state: str, read_only: bool, *faults: Fault) -> Judged:
    disk = disk_of(state).kill()
    for fault in faults:
        fault.apply(disk, yesterday())
    where = {partition_of(fault) for fault in faults}
    # Partitions know nothing of each other; a file of the root may have to do with all of them.
    places = EVERYWHERE if "" in where else [place for place in EVERYWHERE if place in where]
    found = observe(disk, built(), read_only=read_only, places=places)
    result = judged(found, reference(state, read_only), where)
    if result.outcome == SILENT and any(fault.path.endswith(f"/{PUBLISHED}") for fault in faults):
        # Only the published end tells of records that were never synced: without it they may be lost unnamed.
        return judged(found, after_a_power_cut(read_only), where)
    return result


def judged(found: Observed, expected: Observed, where: Iterable[str]) -> Judged:
    refused = {question: a for question, a in found.answers.items() if isinstance(a, Refused)}
    wrong = {
        question: f"{question.place} {question.what}: {answer!r:.200}, was {expected.answers[question]!r:.200}"
        for question, answer in found.answers.items()
        if question not in refused and answer != expected.answers[question]
    }
    if wrong:
        said = [f for f in found.findings if f not in expected.findings and _names_a_loss(f, where)]
        return Judged(DOCTOR if said else SILENT, "; ".join(wrong.values()))
    if refused:
        opened = any(question.what == "open" for question in refused)
        return Judged(
            REFUSED if opened else NAMED, "; ".join(f"{q.place} {q.what}: {a}" for q, a in refused.items())
        )
    return Judged(HARMLESS, "")


def _names_a_loss(finding: Finding, where: Iterable[str]) -> bool:
    # A tail that was not synced is no damage, and it is named all the same.
    return (finding.level is Level.PROBLEM or finding.name == "tail") and any(
        f"{ROOT}/{place}" in str(finding) if place else ROOT in finding.where for place in where
    )


# --- the tests ---------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_without_a_fault_everything_is_answered(state, read_only):
    found = reference(state, read_only)
    assert not [answer for answer in found.answers.values() if isinstance(answer, Refused)]
    assert not [finding for finding in found.findings if finding.level is Level.PROBLEM]
    for question, answer in found.answers.items():
        if "read_committed" in question.what and "count" not in question.what:
            assert b"ABORT" not in repr(answer).encode(), question
    shared = reference("closed", True).answers
    assert {question: found.answers[question] for question in shared} == shared


def test_every_file_is_of_a_kind_and_every_kind_has_a_file():
    found = {kind_of(fault) for state in STATES for fault in all_faults(state)}
    assert found == {kind for kind, _ in KINDS}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_the_loss_of_any_file_is_named_or_harmless(state, read_only, caplog):
    caplog.set_level(logging.CRITICAL)
    outcomes, silent = singles(state, read_only)
    assert not silent, "\n".join(silent)
    column = 2 * STATES.index(state) + read_only
    expected = {(kind, what): cell.split()[column] for kind, row in EXPECTED.items() for what, cell in row.items()}
    expected = {key: outcome for key, outcome in expected.items() if outcome != NO_FAULT}
    different = {key: (outcomes.get(key), expected.get(key)) for key in {*outcomes, *expected}}
    assert not {key: pair for key, pair in different.items() if pair[0] != pair[1]}


def singles(state: str, read_only: bool) -> tuple[dict[tuple[str, str], str], list[str]]:
    """What may become of each kind of file and fault, and the bugs."""
    outcomes: dict[tuple[str, str], set[str]] = {}
    silent = []
    for fault in all_faults(state):
        found = tried(state, read_only, fault)
        outcomes.setdefault((kind_of(fault), fault.what), set()).add(found.outcome)
        if found.outcome == SILENT:
            silent.append(f"{fault}: {found.why}")
    order = "".join(WORDS)
    return {key: "".join(sorted(found, key=order.index)) for key, found in outcomes.items()}, silent


def test_the_loss_of_two_files_is_named_or_harmless(caplog):
    caplog.set_level(logging.CRITICAL)
    rng = seeded("pairs of lost files")
    cases = [
        (state, read_only, first, second)
        for state in STATES
        for first, second in pairs(state)
        for read_only in (False, True)
    ]
    chosen = cases if PAIRS == "all" else rng.sample(cases, int(PAIRS))
    print(f"pairs of lost files: {len(chosen)} of {len(cases)}")
    silent = []
    for state, read_only, first, second in chosen:
        found = tried(state, read_only, first, second)
        if found.outcome == SILENT:
            silent.append(f"{state}, {'read-only' if read_only else 'writing'}, {first}, {second}: {found.why}")
    assert not silent, "\n".join(silent)


def pairs(state: str) -> Iterator[tuple[Fault, Fault]]:
    """Faults in one partition, or one of them in the root: no partition knows of another."""
    faults = [fault for fault in all_faults(state) if fault.what != OLDER]
    for first, second in combinations(faults, 2):
        where = {partition_of(first), partition_of(second)}
        if first.path != second.path and (len(where) == 1 or "" in where):
            yield first, second


# --- what finds nothing proves nothing ---------------------------------------------------------


def test_planted_an_aborted_index_that_is_believed_is_found(monkeypatch):
    monkeypatch.setattr(Note, "agrees", lambda *_args, **_more: True)
    path = next(path for path in disk_of("closed").image(ROOT) if path.endswith(".txnindex"))
    found = tried("closed", True, Fault(path, DELETED))
    assert found.outcome == SILENT
    assert "moves-0 scan, read_committed: " in found.why
    assert "ABORT" in found.why


def test_planted_a_catalogue_that_is_taken_for_the_newest_is_found(monkeypatch):
    monkeypatch.setattr(topic_list, "_newest", lambda root: 0)
    found = tried("closed", False, Fault(f"{ROOT}/logstore.topics", OLDER, 0))
    assert found.outcome == SILENT
    assert " a new producer id: False, was True" in found.why


def test_planted_a_log_of_changes_that_may_be_shorter_is_found(monkeypatch):
    monkeypatch.setattr(topic_list, "_check_size", lambda data, size: None)
    monkeypatch.setattr(topic_list, "_newest", lambda root: 0)
    path = f"{ROOT}/logstore.topics"
    cuts = [fault for fault in all_faults("killed") if fault.path == path and fault.what == CUT]
    assert SILENT in {tried("killed", False, cut).outcome for cut in cuts}


def test_planted_an_epoch_file_that_is_believed_is_found(monkeypatch):
    monkeypatch.setattr(recovery, "_epoch_before", lambda segments, offset: -1)
    found = tried("closed", False, Fault(f"{ROOT}/flights-0/leader-epoch-checkpoint", OLDER, 0))
    assert found.outcome == SILENT
    assert "flights-0 epoch: False, was True" in found.why


def test_planted_a_published_end_that_is_believed_is_found(monkeypatch):
    believe_published(monkeypatch)
    found = tried("closed", True, Fault(f"{ROOT}/flights-0/logstore.published", OLDER, 0))
    assert found.outcome == SILENT
    assert "flights-0 marks: (0, " in found.why


# --- the page ----------------------------------------------------------------------------------


def table() -> str:
    """The table of docs/durability.md, as `EXPECTED` says it."""
    lines = [
        "| file | deleted | emptied | cut between batches or changes | cut elsewhere | yesterday's copy |",
        "|---" * 6 + "|",
    ]
    for kind, _ in KINDS:
        cells = [_cell(EXPECTED.get(kind, {}).get(what, "")) for what in WHATS]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(outcomes: str) -> str:
    columns = outcomes.split()
    if not columns:
        return "-"
    writing, reading = ("".join(columns[n::2]) for n in (0, 1))
    if set(writing) == set(reading):
        return _words(writing)
    return f"{_words(writing)}; read-only: {_words(reading)}"


def _words(outcomes: str) -> str:
    return " or ".join(WORDS[outcome] for outcome in WORDS if outcome in outcomes)


@pytest.mark.skipif(not PAGE.exists(), reason="no source tree around the tests")
def test_the_page_shows_the_table():
    text = PAGE.read_text()
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()
    assert shown == table(), "write it again with: python -m tests.crash.test_lost_files"


def main() -> int:
    """Try every fault; write the table of this module and that of the page."""
    logging.disable(logging.CRITICAL)
    observed: dict[str, dict[str, str]] = {}
    bugs = []
    for state in STATES:
        for read_only in (False, True):
            outcomes, silent = singles(state, read_only)
            bugs += [f"{state}, {'read-only' if read_only else 'writing'}: {each}" for each in silent]
            for kind, what in {(kind, what) for kind, _ in KINDS for what in WHATS}:
                row = observed.setdefault(kind, {})
                row[what] = f"{row.get(what, '')} {outcomes.get((kind, what), NO_FAULT)}".strip()
    EXPECTED.clear()
    EXPECTED.update({kind: observed[kind] for kind, _ in KINDS if kind in observed})
    here = Path(__file__)
    rows = [
        f"    {kind!r}: {{"
        + ", ".join(f"{what!r}: {row[what]!r}" for what in WHATS if set(row[what]) - set(" -"))
        + "},\n"
        for kind, row in EXPECTED.items()
    ]
    written = "EXPECTED: Final[dict[str, dict[str, str]]] = {\n" + "".join(rows) + "}\n"
    here.write_text(re.sub(r"^EXPECTED: .*?\}\n(?=\n\n)", lambda _: written, here.read_text(), flags=re.S | re.M))
    page = PAGE.read_text()
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:start] + "\n" + table() + "\n" + page[end:])
    print("\n".join(bugs))
    return 1 if bugs else 0


if __name__ == "__main__":
    sys.exit(main())
