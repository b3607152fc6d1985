"""Every pipeline on a real Kafka and on our own broker: by ``bootstrap``, against what its own tests compute.

Input goes to the broker, and results are fetched from there, by a client that is not ours. Run by `make interop`.
"""

from __future__ import annotations

import dataclasses
import json
import random
import signal
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from logstore.spark.pipelines import Parameters, activity, archive, files, latest, restore, rollup, stages, surge
from tests.broker.process import served_process
from tests.interop.broker import Broker
from tests.spark.pipelines import city, killing, visitors
from tests.spark.pipelines import test_activity as of_activity
from tests.spark.pipelines import test_archive as of_archive
from tests.spark.pipelines import test_files as of_files
from tests.spark.pipelines import test_latest as of_latest
from tests.spark.pipelines import test_rollup as of_rollup
from tests.spark.pipelines import test_stages as of_stages
from tests.spark.pipelines.kafka_topics import Topics, sent
from tests.spark.pipelines.topic_contents import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

P = TypeVar("P", bound=Parameters)


#: Tests that commit for a group, or write transactions: our own broker serves neither yet.
BEYOND_OURS = ("test_stages_that_go_on_until_they_are_interrupted", "test_archive_and_restore")


@pytest.fixture(scope="module", params=["kafka", "logstore"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker."""
    directory = tmp_path_factory.mktemp("broker") / "data"
    if request.param == "kafka":
        with Broker(directory) as broker:
            yield broker.bootstrap
    else:
        with served_process(directory, ["--set", "log.retention.ms=-1"]) as ours:
            yield ours.bootstrap


@pytest.fixture
def kafka(request: pytest.FixtureRequest, running: str) -> Iterator[Topics]:
    """A broker without topics."""
    if request.node.originalname in BEYOND_OURS and request.node.callspec.params["running"] == "logstore":
        pytest.skip("groups and transactions are not served yet")
    topics = Topics(running)
    yield topics
    topics.remove_all()


def by(kafka: Topics, parameters: P) -> P:
    """The same parameters, for a broker in the place of a directory."""
    return dataclasses.replace(parameters, path="", bootstrap=kafka.bootstrap)


@pytest.mark.row("D5")
def test_files(engine: SparkSession, kafka: Topics, tmp_path: Path) -> None:
    told = of_files.parameters(tmp_path, key="carrier", files_per_trigger=2, partitions=3)
    for numbers in (range(1, 5), range(5, 7)):
        for number in numbers:
            of_files.write_csv(tmp_path / "in", number, 400)
        assert files.run(engine, by(kafka, told)).counts == {"records": 400 * len(numbers), "refused": 0}
        kafka.mirror(told.topic, told.path)
        of_files.check_contents(told)


@pytest.mark.row("U5")
def test_activity(engine: SparkSession, kafka: Topics, tmp_path: Path) -> None:
    events, late = visitors.visits(seed=12, visitors=30), visitors.late(seed=13, count=25)
    told = of_activity.places(tmp_path)
    half = len(events) // 2
    activity.prepare(by(kafka, told))
    for part in (events[:half], [*events[half:], *late]):
        for name in activity.ACTIVITIES:
            rows = [(0, e.user.encode(), b"{}", e.at_ms, ()) for e in part if e.topic == name]
            kafka.write(name, rows)
        counts = activity.run(engine, by(kafka, told)).counts
    assert counts["late records"] == len(late)
    of_activity.check(engine, by(kafka, told), events, late)


@pytest.mark.row("U7")
def test_surge(engine: SparkSession, kafka: Topics, tmp_path: Path) -> None:
    signs = city.signs(seed=15, seconds=240)
    told = surge.SurgeParameters(
        bootstrap=kafka.bootstrap,
        checkpoint=str(tmp_path / "checkpoint"),
        lateness="1 minute",
        max_offsets=len(signs) // 3,
        partitions=1,
    )
    surge.prepare(told)
    for name in (surge.REQUESTS, surge.DRIVERS):
        rows = [(0, sign.key, sign.value, sign.at_ms, ()) for sign in signs if sign.topic == name]
        kafka.write(name, rows)
    assert surge.run(engine, told).counts == {"records": len(signs), "refused": 0, "late windows": 0}
    prices = [json.loads(value or b"") for *_, value, _ in kafka.read(surge.PRICES)]
    newest = {(p["cell"], p["end"]): city.Price(p["demand"], p["supply"], p["price"]) for p in prices}
    assert newest == city.prices(signs, told.window_s, told.slide_s, told.cap)


@pytest.mark.row("U1")
def test_rollup(engine: SparkSession, kafka: Topics, tmp_path: Path) -> None:
    told = of_rollup.parameters(tmp_path, partitions=2, delay_s=5.0)
    rng = random.Random(17)
    values = of_rollup.some_values(rng, 2000, 0, 3 * 3_600_000)
    late = of_rollup.some_values(rng, 50, 0, 3_600_000)
    ends = [("clock", day * of_rollup.DAY_MS, Decimal(1)) for day in (10, 20, 30)]
    kafka.create(told.topic, 2)
    for part in (values + ends, late):
        rows = [
            (rng.randrange(2), series.encode(), json.dumps(record).encode(), 1_700_000_000_000, ())
            for series, record in of_rollup.as_records(part)
        ]
        kafka.write(told.topic, rows)
        assert rollup.run(engine, by(kafka, told)).counts["records"] == len(part)
    for name in told.levels:
        kafka.mirror(f"metrics-{name}", told.path)
    of_rollup.check_levels(told, values + late)


@pytest.mark.row("U3")
def test_stages(engine: SparkSession, kafka: Topics, tmp_path: Path) -> None:
    told = of_stages.given(tmp_path)
    orders = of_stages.fill(told["path"], 800, random.Random(18))
    kafka.publish(told["path"], told["raw"])
    report = stages.run(engine, by(kafka, stages.StagesParameters(**told)))
    assert (report.counts["refused"], report.counts["late"]) == (0, 0)
    check_stages(kafka, told, orders)


def check_stages(kafka: Topics, told: dict[str, Any], orders: Any) -> None:
    for topic in (told["enriched"], told["sums"]):
        kafka.mirror(topic, told["path"])
    of_stages.check(told, orders)


@pytest.mark.row("U3")
def test_stages_that_go_on_until_they_are_interrupted(kafka: Topics, tmp_path: Path) -> None:
    """The command with ``--continuous``: orders come while it runs, Ctrl-C ends it, and the next run goes on."""
    told = of_stages.given(tmp_path)
    orders = of_stages.fill(told["path"], 800, random.Random(19))
    for topic in (told["raw"], told["enriched"], told["sums"]):
        kafka.create(topic, 2)
    words = {key: value for key, value in told.items() if key != "path"}
    pipeline = killing.Run(tmp_path, "stages", **words | {"group": "shelf", "bootstrap": kafka.bootstrap})
    rows = [sent(row) for row in sorted(rows_of(told["path"], told["raw"]), key=lambda row: row[1])]
    # The last one closes the windows of all others, and so has to be read after them.
    parts = [rows[:200], [row for row in rows[200:] if row[1] != b"end"], [row for row in rows if row[1] == b"end"]]
    with pipeline.going_on("--continuous", "--interval-s", "0.2") as going:
        for number, part in enumerate(parts):
            kafka.write(told["raw"], part)
            count = sum(map(len, parts[: number + 1]))
            going.wait_for(lambda count=count: len(kafka.read(told["enriched"])) == count)
        status, report = going.end(signal.SIGINT)
    # Spark's worker daemon may tell of a pipe that was closed: it had a task in hand.
    assert not any(word in pipeline.said for word in ("KeyboardInterrupt", "py4j")), pipeline.said
    assert (status, json.loads(report)["raw"]) == (0, len(rows))
    pipeline.to_the_end()
    check_stages(kafka, told, orders)


@pytest.mark.row("X2", "U13")
def test_archive_and_restore(engine: SparkSession, kafka: Topics, tmp_path: Path) -> None:
    """Of transactions, so that markers are between the offsets; then into a directory, record by record."""
    from confluent_kafka import Producer

    told = of_archive.places(tmp_path, records_per_task=40)
    kafka.create(of_archive.TOPIC, 2)
    writer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": "archive", "compression.codec": "lz4"}
    )
    writer.init_transactions()
    for run in range(2):
        for end in (writer.abort_transaction, writer.commit_transaction):
            writer.begin_transaction()
            for n in range(120):
                headers = [("h", b"%d" % n), ("h", None), ("", b"")] if n % 3 == 0 else []
                key, value = (None if n % 5 == 0 else b"key %d" % n), (None if n % 7 == 0 else b"value %d" % n)
                writer.produce(of_archive.TOPIC, value, key, n % 2, headers=headers, timestamp=of_archive.T0 + n)
            writer.flush()
            end()
        assert archive.run(engine, by(kafka, told)).counts["records"] == 120, run
    back = restore.RestoreParameters(path=str(tmp_path / "restored"), archive=told.archive)
    assert restore.run(engine, back).counts == {"topics": 1, "records": 240}
    expected = kafka.read(of_archive.TOPIC)
    assert rows_of(tmp_path / "restored", of_archive.TOPIC) == expected
    assert {row[1] for row in expected} != set(range(120)), "the markers have left no gap"


@pytest.mark.row("D5")
def test_latest(engine: SparkSession, kafka: Topics, tmp_path: Path) -> None:
    told = of_latest.parameters(tmp_path)
    rng = random.Random(20)
    for count in (400, 30):
        of_latest.change(told, rng, count)
        kafka.publish(told.path, told.topic)
        report = latest.run(engine, by(kafka, told))
        assert report.counts == {
            "records": count,
            "keyless": 0,
            "refused": 0,
            "rows": len(of_latest.expected(told)),
        }
        assert of_latest.as_dict(told) == of_latest.expected(told)
