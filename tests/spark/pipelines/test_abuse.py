"""What users and machines do to pipelines: each of it to each pipeline, and the page's table is what comes of it.

`make test` does a part, `LOGSTORE_ABUSE=all` and `make soak` all. Kills, Ctrl-C and two at once start processes;
lost and old checkpoints are in output/test_outputs.py, which fills two rows of the same table.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.errors import LogstoreError, SparkQueryError
from logstore.spark.pipelines.reasons import short_reasons
from tests.spark.pipelines import killing
from tests.spark.pipelines.cases import CASES, Archive, Files, PipelineCase, case_of

pytestmark = [pytest.mark.timeout(900), pytest.mark.row("U13")]

ALL = os.environ.get("LOGSTORE_ABUSE") == "all"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "pipelines" / "abuse.md"

#: Row of the table -> what is done; it returns what comes of it in words, having compared every output with plain
#: Python.
ABUSES: dict[str, Callable[[PipelineCase, Any], str]] = {}


def abuse(title: str) -> Callable[[Callable[[PipelineCase, Any], str]], Callable[[PipelineCase, Any], str]]:
    def register(do: Callable[[PipelineCase, Any], str]) -> Callable[[PipelineCase, Any], str]:
        ABUSES[title] = do
        return do

    return register


@abuse("run twice")
def twice(case: PipelineCase, engine: Any) -> str:
    case.fill(0)
    case.run(engine)
    before = case.written(engine)
    case.run(engine)
    assert case.written(engine) == before
    case.check(engine)
    return "the second has nothing to do" if case.name != "restore" else "the same again, into another store"


@abuse("killed between the output's commit and Spark's")
def redone(case: PipelineCase, engine: Any) -> str:
    case.fill(0)
    case.run(engine)
    for commits in (case.root / "checkpoint").glob("*/commits"):
        newest = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / f"{newest}").unlink()
        (commits / f".{newest}.crc").unlink(missing_ok=True)
    case.fill(1)
    case.run(engine)
    case.check(engine)
    return "done again, and there once"


@abuse("records of long ago")
def late(case: PipelineCase, engine: Any) -> str:
    for turn in range(2):
        case.fill(turn)
        case.run(engine)
    case.add(*case.late(2))
    counts = case.run(engine).counts
    case.check(engine)
    if case.name in ("rollup", "stages"):
        assert counts.get("late", 0) + counts.get("10s late", 0) == 1
        return "a row of their own with `late`: true"
    if case.name == "activity":
        assert counts["late records"] == 1
        return "counted and in the warehouse, in no session, `late records`"
    if case.name == "surge":
        assert counts["late windows"] == 2
        return "in no price, `late windows`"
    return {"latest": "the later offset wins", "files": "taken"}.get(case.name, "archived, as all are")


@abuse("nothing to read")
def empty(case: PipelineCase, engine: Any) -> str:
    if isinstance(case, Files):
        with pytest.raises(LogstoreError, match=r"no files in .* give schema"):
            case.run(engine)
        case.put("empty.csv", [])
        (case.root / "in" / "none.csv").touch()
        assert case.run(engine).counts == {"records": 0, "refused": 0}
    else:
        with logstore.open(case.told.path, environ={}) as store:
            store.create_topic(case.source, 2)
        assert not any(case.run(engine).counts[name] for name in case.run(engine).counts if name not in ("topics",))
    case.fill(0)
    case.run(engine)
    case.check(engine)
    return "ends, and goes on when there is something"


@abuse("malformed")
def malformed(case: PipelineCase, engine: Any) -> str:
    case.fill(0)
    if isinstance(case, Files):
        (case.root / "in" / "bad.csv").write_text("id,text\n1,a\n2\n3,b,c\n")
        with pytest.raises(SparkQueryError, match=r"bad\.csv, line \d: it has \d fields"), short_reasons():
            case.run(engine)
        assert case.written(engine) == {"lines": {}}
        case.told = type(case.told)(**{**vars(case.told), "strict": False})
    misfits = case.misfits(0)
    if misfits:
        case.add(*misfits)
    counts = case.run(engine).counts
    case.fill(1)
    case.run(engine)
    case.check(engine)
    if isinstance(case, Files):
        assert counts["refused"] == 2
        return "ends the run with file and line; `--no-strict`: left out, `refused`"
    if isinstance(case, Archive):
        return "bytes are bytes: archived as they are"
    assert counts["refused"] == len(misfits)
    return "left out, `refused`"


@abuse("another schema than before")
def changed(case: PipelineCase, engine: Any) -> str:
    case.fill(0)
    case.run(engine)
    if isinstance(case, Files):
        file = case.put("other.csv", [("7", "1", "x")], ("id", "more", "text"))
        with pytest.raises(SparkQueryError, match=r"other\.csv: its header has more besides"), short_reasons():
            case.run(engine)
        file.write_text("text,id\nx,7\n")
        case.run(engine)
        case.check(engine)
        return "columns in another order: by name; other columns end the run with file and difference"
    key, value, at = case.value(1, "more")
    with contextlib.suppress(ValueError):
        value = json.dumps({**json.loads(value or b""), "more": {"of": ["it"]}}).encode()
    case.add((key, value, at))
    case.run(engine)
    case.check(engine)
    if case.name in ("rollup", "stages", "surge"):
        return "a field more is passed over, of another type `refused`"
    return {"latest": "any text is a value; `--schema`: as before, other columns are refused"}.get(
        case.name, "any value is one"
    )


@abuse("any text: emoji, right to left, quotes, NUL, line breaks")
def unicode(case: PipelineCase, engine: Any) -> str:
    texts = ["žluťoučký 🐎", "‏שלום", 'a "quoted", \\ one', "x" * 300, "\u2028\u00a0"]
    if not isinstance(case, Files):
        texts += ["\x00nul", "line\nbreak\r\n\ttab"]
    case.add(*(case.value(0, text) for text in texts))
    case.fill(1)
    case.run(engine)
    case.fill(2)
    case.run(engine)
    case.check(engine)
    return "as it is" if not isinstance(case, Files) else "as it is; no line breaks within a field"


@abuse("a line of 600 kB")
def huge(case: PipelineCase, engine: Any) -> str:
    key, value, at = case.value(0, "x")
    assert key is not None
    assert value is not None
    long = b"x" * 300_000
    case.add((key.replace(b"x", long), value.replace(b'"x"', b'"%s"' % long) if value != b"x" else long, at))
    case.fill(1)
    case.run(engine)
    case.fill(2)
    case.run(engine)
    case.check(engine)
    return "as any other"


@abuse("directories that are missing, or hold something else")
def directories(case: PipelineCase, engine: Any) -> str:
    for name in ("archive/records", "warehouse/records", "rollup/10s", "table"):
        (case.root / name).mkdir(parents=True)
        (case.root / name / "README.txt").write_text("of another program")
    case.told = type(case.told)(**{**vars(case.told), "checkpoint": str(case.root / "a" / "b" / "c")})
    case.fill(0)
    case.run(engine)
    case.check(engine)
    assert all(path.read_text() == "of another program" for path in case.root.rglob("README.txt"))
    return "made; other files stay as they are"


@abuse("another time zone")
def zone(case: PipelineCase, engine: Any) -> str:
    before = engine.conf.get("spark.sql.session.timeZone")
    case.fill(0)
    case.run(engine)
    engine.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        case.fill(1)
        case.run(engine)
        case.check(engine)
    finally:
        engine.conf.set("spark.sql.session.timeZone", before)
    return "the same figures" + ("; `day` is that of the zone" if case.name == "activity" else "")


@abuse("partitions are added")
def added(case: PipelineCase, engine: Any) -> str:
    case.fill(0)
    case.run(engine)
    with logstore.open(case.told.path, environ={}) as store:
        store.add_partitions(case.source or "lines", 5)
    for turn in (1, 2):
        case.fill(turn)
        case.run(engine)
    case.check(engine)
    return "read from their beginning" if case.source else "written, too"


# -- with a process of its own


@abuse("killed at any point")
def killed(case: PipelineCase, engine: Any) -> str:
    rng = random.Random(seed := killing.seed())
    print(f"LOGSTORE_SEED={seed}")
    case.fill(0)
    run = case.as_process(engine)
    for turn in (1, 2):
        run.killed(rng, steps=3)
        if case.name != "restore":
            case.fill(turn)
    run.to_the_end()
    case.check(engine)
    return "the next run goes on; nothing is lost or there twice"


@abuse("Ctrl-C")
def interrupted(case: PipelineCase, engine: Any) -> str:
    case.fill(0)
    run = case.as_process(engine)
    with run.going_on() as going:
        with contextlib.suppress(AssertionError):  # it may have ended before
            # Not before: a Ctrl-C while Python itself starts is Python's to answer.
            begun = "restored" if case.name == "restore" else "checkpoint/*/offsets/0"
            going.wait_for(lambda: any(case.root.glob(begun)))
        status, _ = going.end(signal.SIGINT)
    assert status in (0, 130), (status, run.said)
    assert "Traceback" not in run.said
    run.to_the_end()
    case.check(engine)
    return "130; the next run goes on"


@abuse("two at once")
def at_once(case: PipelineCase, engine: Any) -> str:
    case.fill(0)
    run = case.as_process(engine)
    with run.going_on() as first, run.going_on() as second:
        ends = [first.wait(), second.wait()]
    assert {status for status, _ in ends} <= {0, 1, 75}, run.said
    assert "Traceback" not in run.said
    run.to_the_end()
    case.check(engine)
    return "one of them may end with an error; nothing is lost or there twice"


PROCESSES = {"killed at any point", "Ctrl-C", "two at once"}
SOME = {("malformed", "latest"), ("malformed", "surge"), ("partitions are added", "latest")}
SOME |= {(title, "files") for title in ABUSES if title not in PROCESSES}
CELLS = [(title, name) for title in ABUSES for name in CASES if ALL or (title, name) in SOME]


@pytest.mark.parametrize(("title", "name"), CELLS)
def test_what_is_done_to_a_pipeline_leaves_what_plain_python_computes(
    engine: Any, tmp_path: Path, title: str, name: str
) -> None:
    assert ABUSES[title](case_of(name, tmp_path), engine) == table_of_page()[title][name]


def table_of_page() -> dict[str, dict[str, str]]:
    """Row and pipeline -> what the page says."""
    rows = [line.strip().strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    head, *body = [[cell.strip() for cell in row] for row in rows if not set("".join(row)) <= set("-: ")]
    names = [cell.strip("`") for cell in head[1:]]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in body}


def test_the_table_has_each_abuse_of_each_pipeline() -> None:
    table = table_of_page()
    assert table.keys() == {*ABUSES, "lost checkpoint", "old checkpoint"}
    assert all(row.keys() == CASES.keys() and all(row.values()) for row in table.values())
