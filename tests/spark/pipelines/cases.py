"""Each pipeline with its places: what brings it something new, and whether its outputs are what plain Python says.

What is computed here knows the topics and files, and nothing of Spark.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import logstore
from logstore.spark.pipelines import (
    Parameters,
    Report,
    activity,
    archive,
    files,
    get,
    latest,
    restore,
    rollup,
    stages,
    surge,
)
from tests.spark.pipelines import killing
from tests.spark.pipelines.city import Price, Sign, prices
from tests.spark.pipelines.topic_contents import records_of, rows_of

T0 = 1_700_000_000_000
#: How many records a turn brings.
EACH = 20
#: How far the turns are apart: every window and session of one is closed by the next.
TURN_MS = 600_000

Record = tuple[bytes | None, bytes | None, int]


def append(path: str, topic: str, records: Iterable[Record], partitions: int = 2) -> None:
    with logstore.open(path, environ={}) as store:
        store.create_topic(topic, partitions, if_not_exists=True).append_many(list(records))


def is_text(data: bytes | None) -> bool:
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


class PipelineCase(ABC):
    """One pipeline on one store."""

    name: ClassVar[str]
    source: ClassVar[str] = ""  #: the topic that is read
    topics: ClassVar[tuple[str, ...]] = ()  #: those that are written
    told: Any

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places = {"path": str(root / "store"), "checkpoint": str(root / "checkpoint")}
        self.told: Any = self.parameters()

    @abstractmethod
    def parameters(self) -> Parameters: ...

    @abstractmethod
    def records(self, turn: int) -> list[Record]:
        """What a turn brings to the source."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Directories of Parquet that are written."""
        return ()

    def fill(self, turn: int) -> None:
        append(self.told.path, self.source, self.records(turn))

    def add(self, *records: Record) -> None:
        append(self.told.path, self.source, records)

    def run(self, engine: Any) -> Report:
        report: Report = get(self.name).run(engine, self.told)
        return report

    def as_process(self, engine: Any) -> killing.Run:
        """The same run as a command."""
        return killing.Run(self.root, self.name, **self.options(self.told))

    def options(self, told: Any) -> dict[str, Any]:
        """What differs from the defaults, as the command has it."""
        found = {}
        for each in dataclasses.fields(told):
            value = getattr(told, each.name)
            if value != each.default:
                found[each.name] = ",".join(value) if isinstance(value, tuple) else value
        return found

    def written(self, engine: Any) -> dict[str, Counter[Any]]:
        """Every record and row of the outputs, with how often it is there."""
        found: dict[str, Counter[Any]] = {}
        for topic in self.topics:
            found[topic] = Counter((record.key, record.value) for record in records_of(self.told.path, topic))
        for table in self.tables:
            rows = engine.read.parquet(table).toPandas().astype(str).itertuples(index=False, name=None)
            found[table] = Counter(rows)
        return found

    @abstractmethod
    def check(self, engine: Any) -> None:
        """The outputs are those of all that was brought so far."""

    # -- what may go wrong with the records

    def value(self, turn: int, text: str) -> Record:
        """A good record with a text of one's own in it, as key and in the value."""
        return text.encode(), json.dumps({"text": text}).encode(), T0 + turn * TURN_MS

    def misfits(self, turn: int) -> list[Record]:
        """Records that the pipeline cannot take."""
        return []

    def late(self, turn: int) -> list[Record]:
        """Records of long ago."""
        return [(b"late", value, T0) for _, value, _ in self.records(0)[:1]]


class Files(PipelineCase):
    name = "files"
    topics = ("lines",)

    def parameters(self) -> Parameters:
        (self.root / "in").mkdir()
        return files.FilesParameters(source=str(self.root / "in"), topic="lines", key="id", **self.places)

    def records(self, turn: int) -> list[Record]:
        return [(b"%d" % (turn * EACH + n), b"text %d" % n, 0) for n in range(EACH)]

    def put(self, name: str, rows: Iterable[tuple[str, ...]], head: tuple[str, ...] = ("id", "text")) -> Path:
        path = self.root / "in" / name
        with path.with_suffix(".tmp").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows])
        return path.with_suffix(".tmp").rename(path)

    def fill(self, turn: int) -> None:
        self.add(*self.records(turn))

    def add(self, *records: Record) -> None:
        number = len(list((self.root / "in").iterdir()))
        self.put(f"{number}.csv", [((key or b"").decode(), (value or b"").decode()) for key, value, _ in records])

    def value(self, turn: int, text: str) -> Record:
        return text.encode(), text.encode(), 0

    def check(self, engine: Any) -> None:
        csv.field_size_limit(1 << 30)
        wanted: Counter[Any] = Counter()
        for path in (self.root / "in").glob("*.csv"):
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    if None not in row and None not in row.values():
                        wanted[
                            row["id"].encode(), json.dumps({k: v for k, v in row.items() if v}, sort_keys=True)
                        ] += 1
        lines = records_of(self.told.path, "lines")
        found = ((line.key, json.dumps(json.loads(line.value or b""), sort_keys=True)) for line in lines)
        assert Counter(found) == wanted


class Archive(PipelineCase):
    name = "archive"
    source = "t"

    def parameters(self) -> Parameters:
        return archive.ArchiveParameters(topics=("t",), archive=str(self.root / "archive"), **self.places)

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"{self.told.archive}/records",)

    def records(self, turn: int) -> list[Record]:
        return [(b"k%d" % n, b"%d" % (turn * EACH + n), T0 + turn * TURN_MS) for n in range(EACH)]

    def check(self, engine: Any) -> None:
        found = engine.read.parquet(self.tables[0]).select("partition", "offset", "key", "value").collect()
        rows = [tuple(bytes(each) if isinstance(each, bytearray) else each for each in row) for row in found]
        wanted = [(number, offset, key, value) for number, offset, _, key, value, _ in rows_of(self.told.path, "t")]
        assert sorted(rows) == sorted(wanted)


class Restore(Archive):
    """Out of the archive that the same records have gone into, into a store of its own."""

    name = "restore"

    def run(self, engine: Any) -> Report:
        archive.run(engine, self.told)
        place = self.root / f"restored-{len(list(self.root.glob('restored-*')))}"
        self.back = restore.RestoreParameters(archive=self.told.archive, path=str(place))
        return restore.run(engine, self.back)

    def as_process(self, engine: Any) -> killing.Run:
        archive.run(engine, self.told)
        # The checkpoint that is not needed tells how far it has come, as it does of the others.
        self.back = restore.RestoreParameters(archive=self.told.archive, path=str(self.root / "restored"))
        return killing.Run(self.root, self.name, **self.options(self.back), checkpoint=str(self.root / "none"))

    def check(self, engine: Any) -> None:
        assert rows_of(self.back.path, "t") == rows_of(self.told.path, "t")


class Latest(PipelineCase):
    name = "latest"
    source = "users"

    def parameters(self) -> Parameters:
        return latest.LatestParameters(topic="users", table=str(self.root / "table"), **self.places)

    def records(self, turn: int) -> list[Record]:
        at = T0 + turn * TURN_MS
        return [(b"k%d" % n, None if n % 5 == turn else b"%d %d" % (turn, n), at + n) for n in range(EACH)]

    def written(self, engine: Any) -> dict[str, Counter[Any]]:
        rows = engine.read.parquet(latest.table_path(self.told.table)).toPandas()
        return {"table": Counter(rows.astype(str).itertuples(index=False, name=None))}

    def misfits(self, turn: int) -> list[Record]:
        return [(b"k1", b"\xff\xfe", T0 + 9 * TURN_MS), (b"\xff", b"v", T0)]

    def check(self, engine: Any) -> None:
        last: dict[tuple[str, int], Any] = {}
        for number, _, at, key, value, _ in rows_of(self.told.path, "users"):
            if key is not None and is_text(key) and is_text(value):
                last[key.decode(), number] = (at, number, value)
        newest: dict[str, Any] = {}
        for (key, _), each in last.items():
            newest[key] = max(newest.get(key, each), each, key=lambda found: found[:2])
        wanted = {key: value.decode() for key, (_, _, value) in newest.items() if value is not None}
        rows = engine.read.parquet(latest.table_path(self.told.table)).select("key", "value").collect()
        assert {row["key"]: row["value"] for row in rows} == wanted
        assert len(rows) == len(wanted)


class Windows(PipelineCase):
    """One whose output is sums of windows: of those that are closed, all, in time and late together."""

    length_ms: ClassVar[int] = 10_000

    @abstractmethod
    def values(self) -> list[tuple[str, int, Decimal]]:
        """Series, time and value of every good record."""

    def check_windows(self, rows: Iterable[dict[str, Any]]) -> None:
        wanted: dict[tuple[str, int], list[Any]] = defaultdict(lambda: [0, Decimal(0)])
        newest = 0
        for series, time, value in self.values():
            window = wanted[series, time - time % self.length_ms]
            window[0], window[1] = window[0] + 1, window[1] + value
            newest = max(newest, time)
        found: dict[tuple[str, int], list[Any]] = defaultdict(lambda: [0, Decimal(0)])
        for row in rows:
            window = found[row["series"], row["start"]]
            window[0], window[1] = window[0] + row["count"], window[1] + Decimal(str(row["sum"]))
        for key, sums in found.items():
            assert wanted[key] == sums, key
        # What is not there is open: nothing newer than its end was seen by an earlier micro-batch.
        assert all(start + self.length_ms >= newest - TURN_MS for _, start in wanted.keys() - found.keys())


class Rollup(Windows):
    name = "rollup"
    source = "metrics"
    topics = ("metrics-10s",)

    def parameters(self) -> Parameters:
        output = str(self.root / "rollup")
        return rollup.RollupParameters(topic="metrics", output=output, levels=("10s",), delay_s=0, **self.places)

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"{self.told.output}/10s",)

    def records(self, turn: int) -> list[Record]:
        at = T0 + turn * TURN_MS
        return [self.metric(f"cpu {n}", at + n, n) for n in range(EACH)]

    def metric(self, series: str, at: int, value: Any) -> Record:
        return series.encode(), json.dumps({"time": at, "value": value}).encode(), at

    def value(self, turn: int, text: str) -> Record:
        return self.metric(text, T0 + turn * TURN_MS, 1)

    def misfits(self, turn: int) -> list[Record]:
        at = T0 + turn * TURN_MS
        wrong = [b"\xff", b"", b"{", b"[1]", json.dumps({"time": str(at), "value": 1}).encode()]
        more: list[Record] = [(None, b'{"time": 1, "value": 1}', at), (b"x", None, at)]
        return [(b"cpu 1", value, at) for value in wrong] + more

    def values(self) -> list[tuple[str, int, Decimal]]:
        found = []
        for record in records_of(self.told.path, "metrics"):
            try:
                about = json.loads(record.value or b"")
                time, value = about["time"], about["value"]
                if record.key is not None and isinstance(time, int):
                    found.append((record.key.decode(), time, Decimal(str(value))))
            except (ValueError, TypeError):
                continue
        return found

    def check(self, engine: Any) -> None:
        rows = [json.loads(record.value or b"") for record in records_of(self.told.path, "metrics-10s")]
        self.check_windows(rows)
        table = engine.read.parquet(self.tables[0]).select("series", "start", "count", "late").collect()
        assert Counter(map(tuple, table)) == Counter(
            (row["series"], row["start"], row["count"], row["late"]) for row in rows
        )


class Stages(Windows):
    name = "stages"
    source = "orders"
    topics = ("orders-enriched", "orders-by-shelf")

    def parameters(self) -> Parameters:
        (self.root / "items.csv").write_text("item,shelf\na,A\nb,B\n")
        return stages.StagesParameters(
            raw="orders",
            enriched=self.topics[0],
            sums=self.topics[1],
            schema="item STRING, cents LONG, time LONG, note STRING",
            table=str(self.root / "items.csv"),
            on="item",
            group=("shelf",),
            amount="cents",
            window="10s",
            delay_s=0,
            **self.places,
        )

    def records(self, turn: int) -> list[Record]:
        at = T0 + turn * TURN_MS
        return [self.order(f"{turn}-{n}", at + n, item="ab"[n % 2], cents=n) for n in range(EACH)]

    def order(self, key: str, at: int, **fields: Any) -> Record:
        return key.encode(), json.dumps({**fields, "time": at}).encode(), at

    def value(self, turn: int, text: str) -> Record:
        return self.order(text, T0 + turn * TURN_MS, item="a", cents=1, note=text)

    def misfits(self, turn: int) -> list[Record]:
        at = T0 + turn * TURN_MS
        good = {"item": "a", "cents": 1, "time": at}
        wrong = [{**good, "cents": "1"}, {**good, "time": "1"}, [good]]
        return [(b"k", value, at) for value in (b"\xff", b"", b"{", *(json.dumps(each).encode() for each in wrong))]

    def orders(self) -> list[tuple[bytes | None, dict[str, Any]]]:
        found = []
        for record in records_of(self.told.path, "orders"):
            try:
                order = json.loads(record.value or b"")
            except ValueError:
                continue
            if isinstance(order, dict) and all(isinstance(order.get(name), int) for name in ("cents", "time")):
                shelf = {"a": "A", "b": "B"}.get(order["item"])
                found.append((record.key, {**order, **({"shelf": shelf} if shelf else {})}))
        return found

    def values(self) -> list[tuple[str, int, Decimal]]:
        return [(order.get("shelf", ""), order["time"], Decimal(order["cents"])) for _, order in self.orders()]

    def check(self, engine: Any) -> None:
        found = Counter(
            (record.key, json.dumps(json.loads(record.value or b""), sort_keys=True))
            for record in records_of(self.told.path, self.topics[0])
        )
        known = ("item", "cents", "time", "note", "shelf")
        kept = [(key, {name: order[name] for name in known if name in order}) for key, order in self.orders()]
        assert found == Counter((key, json.dumps(order, sort_keys=True)) for key, order in kept)
        self.check_windows(json.loads(record.value or b"") for record in records_of(self.told.path, self.topics[1]))


class Activity(PipelineCase):
    name = "activity"
    source = "views"
    topics = (activity.SESSIONS,)
    gap_ms: ClassVar[int] = 60_000

    def parameters(self) -> Parameters:
        return activity.ActivityParameters(
            warehouse=str(self.root / "warehouse"),
            activities=("views",),
            gap="1 minute",
            lateness="1 second",
            **self.places,
        )

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"{self.told.warehouse}/records", f"{self.told.warehouse}/sessions")

    def records(self, turn: int) -> list[Record]:
        at = T0 + turn * TURN_MS
        return [(b"user %d" % n, b"%d" % turn, at + n) for n in range(EACH)]

    def misfits(self, turn: int) -> list[Record]:
        return [(b"\xff", b"v", T0 + turn * TURN_MS), (b"u", b"\xff", T0 + turn * TURN_MS)]

    def check(self, engine: Any) -> None:
        rows = rows_of(self.told.path, "views")
        wanted = Counter(
            (key and key.decode(), value and value.decode(), number, offset)
            for number, offset, _, key, value, _ in rows
            if is_text(key) and is_text(value)
        )
        table = engine.read.parquet(self.tables[0]).select("user", "value", "partition", "offset").collect()
        assert Counter(map(tuple, table)) == wanted
        (count,) = [json.loads(record.value or b"") for record in records_of(self.told.path, self.told.counts)][-1:]
        assert count == {"topic": "views", "events": len(rows)}

        times: dict[str, list[int]] = defaultdict(list)
        for _, _, at, key, _, _ in rows:
            if key is not None and is_text(key):
                times[key.decode()].append(at)
        possible = set()
        for user, own in times.items():
            start = last = min(own)
            count_of = 0
            for at in [*sorted(own), 1 << 62]:
                if at - last > self.gap_ms:
                    possible.add((user, start, last, count_of))
                    start, count_of = at, 0
                last, count_of = at, count_of + 1
        found = [json.loads(record.value or b"") for record in records_of(self.told.path, activity.SESSIONS)]
        sessions = Counter((row["user"], row["start"], row["end"], row["events"]) for row in found)
        assert set(sessions.values()) <= {1}
        assert sessions.keys() <= possible
        newest = max((at for own in times.values() for at in own), default=0)
        late = {(user, start) for user, start, *_ in possible if user == "late"}
        missing = {(user, start) for user, start, end, _ in possible - sessions.keys() if end < newest - TURN_MS}
        assert missing <= late
        rows_found = engine.read.parquet(self.tables[1]).count()
        assert rows_found == len(found)


class Surge(PipelineCase):
    name = "surge"
    source = surge.REQUESTS

    def parameters(self) -> Parameters:
        return surge.SurgeParameters(window_s=10, slide_s=5, **self.places)

    def records(self, turn: int) -> list[Record]:
        at = T0 + turn * TURN_MS
        return [(b"k", json.dumps({"cell": f"c{n % 3}"}).encode(), at + n * 100) for n in range(EACH)]

    def value(self, turn: int, text: str) -> Record:
        return text.encode(), json.dumps({"cell": text}).encode(), T0 + turn * TURN_MS

    def misfits(self, turn: int) -> list[Record]:
        return [(b"k", value, T0 + turn * TURN_MS) for value in (b"\xff", b"", b"{", b"[1]", b'{"cell": {"a": 1}')]

    def check(self, engine: Any) -> None:
        signs = []
        for record in records_of(self.told.path, surge.REQUESTS):
            try:
                about = json.loads(record.value or b"")
            except ValueError:
                continue
            if isinstance(about, dict) and record.key != b"late":
                signs.append(Sign(record.timestamp_ms, about["cell"], None))
        found = [json.loads(record.value or b"") for record in records_of(self.told.path, surge.PRICES)]
        newest = {(p["cell"], p["end"]): Price(p["demand"], p["supply"], p["price"]) for p in found}
        assert newest == prices(signs, 10, 5, self.told.cap)
        # Once, since none of its windows was priced in two micro-batches.
        assert len(found) == len(newest)

    def written(self, engine: Any) -> dict[str, Counter[Any]]:
        return {"prices": Counter((r.key, r.value) for r in records_of(self.told.path, surge.PRICES))}


CASES: dict[str, type[PipelineCase]] = {
    each.name: each for each in (Activity, Archive, Files, Latest, Restore, Rollup, Stages, Surge)
}


def case_of(name: str, root: Path) -> Any:
    return CASES[name](root)


__all__ = ["CASES", "EACH", "T0", "TURN_MS", "Files", "PipelineCase", "append", "case_of"]
