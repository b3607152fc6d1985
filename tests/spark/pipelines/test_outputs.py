"""A checkpoint that is lost, of yesterday or of another run is refused; nothing is lost, doubled or written.

Each pipeline with each of its stages; what it does with its own checkpoint afterwards is whole.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import logstore
from logstore.errors import ArchiveIncompleteError, CheckpointMismatchError, NotALogError
from logstore.spark.pipelines import Parameters, activity, archive, archives, files, get, rollup, stages
from logstore.spark.pipelines.outputs import CLAIM
from logstore.spark.pipelines.written import files_of
from tests.spark.pipelines.topic_contents import records_of

pytestmark = pytest.mark.timeout(600)  # on a busy machine

T0 = 1_700_000_000_000
#: What every fill brings, and how many records.
EACH = 20


def append(path: str, topic: str, records: list[tuple[bytes, bytes, int]]) -> None:
    with logstore.open(path, environ={}) as store:
        store.create_topic(topic, 2, if_not_exists=True).append_many(records)


@dataclass
class Life:
    """One pipeline with its places: what brings it something new, and what its outputs hold."""

    told: Parameters
    fill: Callable[[int], None]
    topics: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    def run(self, engine: Any, name: str) -> None:
        get(name).run(engine, self.told)

    def written(self, engine: Any) -> dict[str, Counter[Any]]:
        """Every record and row of the outputs, with how often it is there."""
        found: dict[str, Counter[Any]] = {}
        for topic in self.topics:
            found[topic] = Counter((record.key, record.value) for record in records_of(self.told.path, topic))
        for table in self.tables:
            rows = engine.read.parquet(table).toPandas().astype(str).itertuples(index=False, name=None)
            found[table] = Counter(rows)
        return found


def archive_life(tmp_path: Path, places: dict[str, str]) -> Life:
    told = archive.ArchiveParameters(topics=("t",), archive=str(tmp_path / "archive"), **places)

    def fill(turn: int) -> None:
        append(told.path, "t", [(b"k", b"%d" % (turn * EACH + n), T0) for n in range(EACH)])

    return Life(told, fill, tables=(f"{told.archive}/records",))


def activity_life(tmp_path: Path, places: dict[str, str]) -> Life:
    told = activity.ActivityParameters(
        warehouse=str(tmp_path / "warehouse"), activities=("views",), gap="1 minute", lateness="1 second", **places
    )

    def fill(turn: int) -> None:
        at = T0 + turn * 600_000
        append(told.path, "views", [(b"user %d" % n, b"%d" % turn, at + n) for n in range(EACH)])

    tables = (f"{told.warehouse}/records", f"{told.warehouse}/sessions")
    return Life(told, fill, topics=(told.sessions,), tables=tables)


def rollup_life(tmp_path: Path, places: dict[str, str]) -> Life:
    told = rollup.RollupParameters(
        topic="metrics", output=str(tmp_path / "rollup"), levels=("10s",), delay_s=0, **places
    )

    def fill(turn: int) -> None:
        at = T0 + turn * 600_000
        values = [(b"cpu %d" % n, json.dumps({"time": at + n, "value": n}).encode(), at + n) for n in range(EACH)]
        append(told.path, "metrics", values)

    return Life(told, fill, topics=("metrics-10s",), tables=(f"{told.output}/10s",))


def stages_life(tmp_path: Path, places: dict[str, str]) -> Life:
    (tmp_path / "items.csv").write_text("item,shelf\na,A\nb,B\n")
    told = stages.StagesParameters(
        raw="orders",
        enriched="orders-enriched",
        sums="orders-by-shelf",
        schema="item STRING, cents LONG, time LONG",
        table=str(tmp_path / "items.csv"),
        on="item",
        group=("shelf",),
        amount="cents",
        window="10s",
        delay_s=0,
        **places,
    )

    def fill(turn: int) -> None:
        at = T0 + turn * 600_000
        orders = [{"item": "ab"[n % 2], "cents": n, "time": at + n} for n in range(EACH)]
        append(told.path, "orders", [(b"%d" % n, json.dumps(each).encode(), at) for n, each in enumerate(orders)])

    return Life(told, fill, topics=(told.enriched, told.sums))


def files_life(tmp_path: Path, places: dict[str, str]) -> Life:
    told = files.FilesParameters(source=str(tmp_path / "in"), topic="lines", format="text", **places)
    (tmp_path / "in").mkdir()

    def fill(turn: int) -> None:
        (tmp_path / "in" / f"{turn}.txt").write_text("".join(f"{turn * EACH + n}\n" for n in range(EACH)))

    return Life(told, fill, topics=("lines",))


LIVES: dict[str, Callable[[Path, dict[str, str]], Life]] = {
    "archive": archive_life,
    "activity": activity_life,
    "rollup": rollup_life,
    "stages": stages_life,
    "files": files_life,
}
STAGES = {
    "archive": ["archive"],
    "activity": ["sessions", "sessions-table", "warehouse"],
    "rollup": ["sum-10s", "load-10s"],
    "stages": ["enrich", "sum-up"],
    "files": ["files"],
}


def life_of(name: str, tmp_path: Path) -> Life:
    return LIVES[name](tmp_path, {"path": str(tmp_path / "store"), "checkpoint": str(tmp_path / "checkpoint")})


@pytest.mark.row("U13", "D5")
@pytest.mark.parametrize("name", LIVES)
def test_a_lost_or_an_old_checkpoint_loses_and_doubles_nothing(engine: Any, tmp_path: Path, name: str) -> None:
    life, checkpoint = life_of(name, tmp_path), tmp_path / "checkpoint"
    life.fill(0)
    life.run(engine, name)
    shutil.copytree(checkpoint, tmp_path / "old")
    for turn in (1, 2):
        life.fill(turn)
        if turn == 1 or name in ("rollup", "stages"):
            life.run(engine, name)
    before = life.written(engine)
    assert_once(before)
    for stage in STAGES[name]:
        state = checkpoint / stage
        state.rename(tmp_path / "newest")
        with pytest.raises(CheckpointMismatchError, match="new"):
            life.run(engine, name)
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(tmp_path / "old" / stage, state)
        with pytest.raises(CheckpointMismatchError, match="has come to micro-batch"):
            life.run(engine, name)
        shutil.rmtree(state)
        (tmp_path / "newest").rename(state)
    # Stages before the one that is refused go on.
    between = life.written(engine)
    assert_once(between)

    life.fill(3)
    life.run(engine, name)
    after = life.written(engine)
    assert_once(after)
    for output, rows in after.items():
        assert between[output] <= rows
        assert before[output] < rows


def assert_once(written: dict[str, Counter[Any]]) -> None:
    """What a fill brings is different from what any other brings, and so is what becomes of it."""
    for output, rows in written.items():
        assert set(rows.values()) == {1}, output


@pytest.mark.parametrize(("name", "directory"), [("archive", "archive/records"), ("rollup", "rollup/10s")])
def test_a_directory_that_was_emptied_or_is_anothers_is_refused(
    engine: Any, tmp_path: Path, name: str, directory: str
) -> None:
    life = life_of(name, tmp_path)
    for turn in range(2):
        life.fill(turn)
        life.run(engine, name)
    filled = tmp_path / directory
    assert json.loads((filled / CLAIM).read_text())["checkpoint"].startswith(life.told.checkpoint)
    filled.rename(tmp_path / "moved")
    life.fill(2)
    with pytest.raises(CheckpointMismatchError, match=r"no micro-batch \d.*emptied"):
        life.run(engine, name)

    shutil.rmtree(filled, ignore_errors=True)
    (tmp_path / "moved").rename(filled)
    claim = json.loads((filled / CLAIM).read_text())
    (filled / CLAIM).write_text(json.dumps(claim | {"query": "another", "checkpoint": "/elsewhere"}))
    (filled / f".{CLAIM}.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointMismatchError, match="/elsewhere"):
        life.run(engine, name)


def test_a_second_topic_into_one_warehouse_is_refused(engine: Any, tmp_path: Path) -> None:
    life = life_of("activity", tmp_path)
    life.fill(0)
    life.run(engine, "activity")
    append(life.told.path, "clicks", [(b"u", b"c", T0)])
    other = replace(
        life.told,
        activities=("clicks",),
        sessions="sessions-of-clicks",
        counts="counts-of-clicks",
        checkpoint=str(tmp_path / "another"),
    )
    with pytest.raises(CheckpointMismatchError, match="filled by another run, the query of checkpoint"):
        activity.run(engine, other)
    assert engine.read.parquet(f"{life.told.warehouse}/records").count() == EACH


def test_two_directories_of_files_may_go_into_one_topic(engine: Any, tmp_path: Path) -> None:
    life = life_of("files", tmp_path)
    life.fill(0)
    life.run(engine, "files")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.txt").write_text("one more\n")
    other = replace(life.told, source=str(tmp_path / "more"), checkpoint=str(tmp_path / "another"))
    assert files.run(engine, other).counts["records"] == 1
    assert len(records_of(life.told.path, "lines")) == EACH + 1


def test_a_directory_that_a_killed_run_has_only_claimed_is_free(engine: Any, tmp_path: Path) -> None:
    life = life_of("archive", tmp_path)
    life.fill(0)
    records = tmp_path / "archive" / "records"
    records.mkdir(parents=True)
    (records / CLAIM).write_text('{"query": "another", "checkpoint": "/elsewhere"}')
    life.run(engine, "archive")
    assert engine.read.parquet(str(records)).count() == EACH
    assert json.loads((records / CLAIM).read_text())["checkpoint"].startswith(life.told.checkpoint)


def test_an_archive_that_has_fewer_records_than_its_checkpoint_says_ends_the_run(
    engine: Any, tmp_path: Path
) -> None:
    """Spark's list of files lacks one, for whatever reason: the range is not noted as archived."""
    life = life_of("archive", tmp_path)
    life.fill(0)
    assert isinstance(life.told, archive.ArchiveParameters)
    ranges = archive.begin(engine, life.told)
    archive.start_archive(engine, life.told, ranges).awaitTermination()
    log = tmp_path / "archive/records/_spark_metadata/0"
    version, *lines = log.read_text().splitlines()
    assert lines
    log.write_text("\n".join([version, *lines[1:]]))
    log.with_name(".0.crc").unlink(missing_ok=True)
    with pytest.raises(ArchiveIncompleteError, match=r"archive has 0 records of t-\d at offsets 0 to"):
        life.run(engine, "archive")
    assert not any(each.records for each in archives.read_ranges(engine, life.told.archive).values())


def test_other_readers_find_what_counts_though_a_killed_run_has_left_files(engine: Any, tmp_path: Path) -> None:
    """Twelve runs, so that Spark's list has been put together once, and a file that no run has finished."""
    life = life_of("archive", tmp_path)
    life.told = replace(life.told, max_offsets=10)
    for turn in range(6):
        life.fill(turn)
    life.run(engine, "archive")
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
    with pytest.raises(NotALogError, match="no stream of Spark has written files here"):
        files_of(tmp_path)
