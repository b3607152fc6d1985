"""A checkpoint that is lost, of yesterday or of another run is refused; nothing is lost, doubled or written.

Each pipeline with each of its stages; what it does with its own checkpoint afterwards is whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from logstore.errors import CheckpointMismatchError, NotALogError
from logstore.spark.pipelines import activity, archive, files
from logstore.spark.pipelines.output import archives, outputs
from logstore.spark.pipelines.output.outputs import CLAIM
from logstore.spark.pipelines.output.written import files_of
from tests.spark.pipelines.cases import EACH, T0, append, case_of
from tests.spark.pipelines.topic_contents import records_of

pytestmark = pytest.mark.timeout(600)  # on a busy machine

#: `make test` does a part, and make soak all.
ALL = os.environ.get("LOGSTORE_ABUSE") == "all"
STAGES = {
    "archive": ["archive"],
    "activity": ["sessions", "sessions-table", "warehouse"],
    "surge": ["prices"],
    "rollup": ["sum-10s", "load-10s"],
    "stages": ["enrich", "sum-up"],
    "files": ["files"],
}


@pytest.mark.parametrize("name", ["Directory", "Topic"])
def test_an_old_name_of_an_output_is_the_new_one(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"outputs\.{name} is .*outputs\.{name}Output now"):
        assert getattr(outputs, name) is getattr(outputs, f"{name}Output")
    with pytest.raises(AttributeError, match="Surprise"):
        outputs.Surprise  # noqa: B018


@pytest.mark.row("U13", "D5")
@pytest.mark.parametrize("name", [name for name in STAGES if ALL or name not in ("activity", "stages")])
def test_a_lost_or_an_old_checkpoint_loses_and_doubles_nothing(engine: Any, tmp_path: Path, name: str) -> None:
    case, checkpoint = case_of(name, tmp_path), tmp_path / "checkpoint"
    case.fill(0)
    case.run(engine)
    shutil.copytree(checkpoint, tmp_path / "old")
    for turn in (1, 2):
        case.fill(turn)
        if turn == 1 or name in ("rollup", "stages"):
            case.run(engine)
    before = case.written(engine)
    assert_once(before)
    for stage in STAGES[name]:
        state = checkpoint / stage
        state.rename(tmp_path / "newest")
        if name != "surge":
            with pytest.raises(CheckpointMismatchError, match="new"):
                case.run(engine)
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(tmp_path / "old" / stage, state)
        with pytest.raises(CheckpointMismatchError, match="has come to micro-batch"):
            case.run(engine)
        shutil.rmtree(state)
        (tmp_path / "newest").rename(state)
    # Stages before the one that is refused go on.
    between = case.written(engine)
    assert_once(between)

    case.fill(3)
    case.run(engine)
    after = case.written(engine)
    assert_once(after)
    for output, rows in after.items():
        assert between[output] <= rows
        assert before[output] < rows


def test_prices_come_again_with_a_new_checkpoint_and_end_as_they_were(engine: Any, tmp_path: Path) -> None:
    case = case_of("surge", tmp_path)
    for turn in range(3):
        case.fill(turn)
        case.run(engine)
    before = records_of(case.told.path, case.told.prices)
    shutil.rmtree(tmp_path / "checkpoint")
    case.run(engine)
    after = records_of(case.told.path, case.told.prices)
    assert len(after) > len(before)
    newest = [
        {record.key: json.loads(record.value or b"")["price"] for record in found} for found in (before, after)
    ]
    assert newest[0] == newest[1]


def assert_once(written: dict[str, Counter[Any]]) -> None:
    """What a fill brings is different from what any other brings, and so is what becomes of it."""
    for output, rows in written.items():
        assert set(rows.values()) == {1}, output


@pytest.mark.parametrize(
    ("name", "directory"), [("archive", "archive/records"), ("rollup", "rollup/10s")][: 2 if ALL else 1]
)
def test_a_directory_that_was_emptied_or_is_anothers_is_refused(
    engine: Any, tmp_path: Path, name: str, directory: str
) -> None:
    case = case_of(name, tmp_path)
    for turn in range(2):
        case.fill(turn)
        case.run(engine)
    filled = tmp_path / directory
    assert json.loads((filled / CLAIM).read_text())["checkpoint"].startswith(case.told.checkpoint)
    filled.rename(tmp_path / "moved")
    case.fill(2)
    with pytest.raises(CheckpointMismatchError, match=r"no micro-batch \d.*emptied"):
        case.run(engine)

    shutil.rmtree(filled, ignore_errors=True)
    (tmp_path / "moved").rename(filled)
    claim = json.loads((filled / CLAIM).read_text())
    (filled / CLAIM).write_text(json.dumps(claim | {"query": "another", "checkpoint": "/elsewhere"}))
    (filled / f".{CLAIM}.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointMismatchError, match="/elsewhere"):
        case.run(engine)


def test_a_second_topic_into_one_warehouse_is_refused(engine: Any, tmp_path: Path) -> None:
    case = case_of("activity", tmp_path)
    case.fill(0)
    case.run(engine)
    append(case.told.path, "clicks", [(b"u", b"c", T0)])
    other = replace(
        case.told,
        activities=("clicks",),
        sessions="sessions-of-clicks",
        counts="counts-of-clicks",
        checkpoint=str(tmp_path / "another"),
    )
    with pytest.raises(CheckpointMismatchError, match="filled by another run, the query of checkpoint"):
        activity.run(engine, other)
    assert engine.read.parquet(f"{case.told.warehouse}/records").count() == EACH


def test_two_directories_of_files_may_go_into_one_topic(engine: Any, tmp_path: Path) -> None:
    case = case_of("files", tmp_path)
    case.fill(0)
    case.run(engine)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.csv").write_text("id,text\n999,one more\n")
    other = replace(case.told, source=str(tmp_path / "more"), checkpoint=str(tmp_path / "another"))
    assert files.run(engine, other).counts["records"] == 1
    assert len(records_of(case.told.path, "lines")) == EACH + 1


def test_a_directory_that_a_killed_run_has_only_claimed_is_free(engine: Any, tmp_path: Path) -> None:
    case = case_of("archive", tmp_path)
    case.fill(0)
    records = tmp_path / "archive" / "records"
    records.mkdir(parents=True)
    (records / CLAIM).write_text('{"query": "another", "checkpoint": "/elsewhere"}')
    case.run(engine)
    assert engine.read.parquet(str(records)).count() == EACH
    assert json.loads((records / CLAIM).read_text())["checkpoint"].startswith(case.told.checkpoint)


def test_an_archive_that_has_fewer_records_than_its_checkpoint_says_ends_the_run(
    engine: Any, tmp_path: Path
) -> None:
    """Spark's list of files lacks one, for whatever reason: the range is not noted as archived."""
    case = case_of("archive", tmp_path)
    case.fill(0)
    ranges = archive.begin(engine, case.told)
    archive.start_archive(engine, case.told, ranges).awaitTermination()
    log = tmp_path / "archive/records/_spark_metadata/0"
    version, *lines = log.read_text().splitlines()
    assert lines
    log.write_text("\n".join([version, *lines[1:]]))
    log.with_name(".0.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointMismatchError, match=r"archive has 0 records of t-\d at offsets 0 to"):
        case.run(engine)
    assert not any(each.records for each in archives.read_ranges(engine, case.told.archive).values())


def test_other_readers_find_what_counts_though_a_killed_run_has_left_files(engine: Any, tmp_path: Path) -> None:
    """Twelve runs, so that Spark's list has been put together once, and a file that no run has finished."""
    case = case_of("archive", tmp_path)
    case.told = replace(case.told, max_offsets=10)
    for turn in range(6):
        case.fill(turn)
    case.run(engine)
    records = tmp_path / "archive" / "records"
    assert any(each.name.endswith(".compact") for each in (records / "_spark_metadata").iterdir())
    found = files_of(records)
    shutil.copy(found[0], Path(found[0]).with_name("part-of-a-killed-run.zstd.parquet"))
    assert sorted(map(str, records.rglob("*.parquet"))) != sorted(found)
    offsets = Counter(
        (str(Path(path).parent), offset)
        for path in found
        for offset in pyarrow.parquet.ParquetFile(path).read(["offset"])["offset"].to_pylist()
    )
    assert len(offsets) == 6 * EACH
    assert set(offsets.values()) == {1}
    with pytest.raises(NotALogError, match="was written by no stream of Spark"):
        files_of(tmp_path)
