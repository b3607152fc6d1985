"""A real broker serves partitions that we wrote, appends to them, and we read the result.

Each codec in three ways. ``clean``: our directory and our lines in the root's checkpoints, and the mark
of a clean shutdown, so the broker goes by our indexes and snapshots. ``crashed``: our directory and no
word about it, so the broker checks every batch and rebuilds the indexes. ``bare``: the same, with
nothing in the directory but the ``.log`` files.
"""

from __future__ import annotations

import functools
import shutil
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from logstore import Log
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.formats.leader_epochs import Epochs
from logstore.records import Codec, TopicPartition
from tests.interop.broker import Broker, forget_in_checkpoints
from tests.interop.clients import READERS, JavaClient, Read, Row
from tests.interop.histories import SETTINGS, History, write_history
from tests.interop.make_fixtures import AWKWARD, START_MS, several, words

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

WAYS = ("clean", "crashed", "bare")


class Served(NamedTuple):
    """A partition of ours under a broker, and what the broker's clients appended to it."""

    topic: str
    history: History
    appended: list[Read]
    dropped: set[int]  #: offsets of what they appended and aborted


class Stage(NamedTuple):
    """Two runs of a broker over our partitions, one that reads and one that appends; it is stopped now."""

    data: Path
    served: dict[tuple[str, Codec], Served]
    read: dict[tuple[str, str, str], list[Read]]  #: by client, topic, isolation
    times: dict[str, list[tuple[int, int] | None]]  #: by topic, for each time of `times_in`
    printed: str


def topic_of(way: str, codec: Codec) -> str:
    return f"{codec.name.lower()}-{way}"


def times_in(history: History) -> list[int]:
    """Every timestamp of a history, and the moments around it."""
    known = {read.row.timestamp_ms for read in history.records}
    return sorted({ms + step for ms in known for step in (-1, 0, 1)})


def lay_under(data: Path, history: History, topic: str, way: str) -> None:
    """Put a partition of ours in the place of one that the stopped broker has created."""
    place = data / f"{topic}-0"
    for path in place.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in history.path.iterdir():
        if way != "bare" or path.suffix == ".log":
            shutil.copy(path, place)


def tell_in_checkpoints(data: Path, histories: dict[str, History]) -> None:
    """Give a stopped broker's root the lines that ours has for the partitions."""
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS):
        known = checkpoints.read_offsets((data / name).read_bytes(), name)
        for topic, history in histories.items():
            (offset,) = checkpoints.read_offsets((history.path.parent / name).read_bytes(), name).values()
            known[TopicPartition(topic, 0)] = offset
        (data / name).write_bytes(checkpoints.write_offsets(known))
    assert (data / checkpoints.CLEAN_SHUTDOWN).exists()


def append_with_java(java: JavaClient, topic: str) -> tuple[list[Read], set[int]]:
    """Plain, idempotent and transactional appends, one transaction aborted: (all records, aborted)."""
    java.open("plain", enable_idempotence="false", compression_type="lz4")
    java.open("idempotent", enable_idempotence="true", compression_type="zstd")
    java.open("transactional", transactional_id=f"t-{topic}")
    later_ms = START_MS + 10**9
    records = java.send("plain", topic, AWKWARD)
    records += java.send("idempotent", topic, [Row(later_ms, None, words(n, 9_000)) for n in range(20)])
    java.begin("transactional")
    records += java.send("transactional", topic, several(4, later_ms, b"theirs, kept"))
    java.commit("transactional")
    java.begin("transactional")
    aborted = java.send("transactional", topic, several(4, later_ms, b"theirs, dropped"))
    java.abort("transactional")
    records += aborted + java.send("idempotent", topic, several(3, later_ms, b"theirs, last"))
    for name in ("plain", "idempotent", "transactional"):
        java.close(name)
    return records, {read.offset for read in aborted}


def read_with_all(bootstrap: str, java: JavaClient, topics: list[str]) -> dict[tuple[str, str, str], list[Read]]:
    """What every client sees of every topic by both levels of isolation."""
    readers: dict[str, Callable[[str, str], list[Read]]] = {"java": java.read}
    for name, reader in READERS.items():
        readers[name] = functools.partial(reader, bootstrap)
    questions = [(topic, isolation) for topic in topics for isolation in ("read_uncommitted", "read_committed")]

    def ask(name: str) -> dict[tuple[str, str, str], list[Read]]:
        return {(name, *question): readers[name](*question) for question in questions}

    with warnings.catch_warnings(), ThreadPoolExecutor(len(readers)) as pool:
        warnings.simplefilter("ignore")  # deprecations of the clients' own
        answers = list(pool.map(ask, readers))
    return {key: found for answer in answers for key, found in answer.items()}


def serve(directory: Path, ways: list[str], histories: dict[Codec, History]) -> Stage:
    """Have a broker create topics, lay ours under them, read them and append to them."""
    broker = Broker(directory / "broker")
    topics = {(way, codec): topic_of(way, codec) for way in ways for codec in Codec}
    log = directory / "client.log"
    with broker, JavaClient(broker.bootstrap, log) as java:
        for topic in topics.values():
            java.create(topic, internal_segment_bytes=250_000)
    for (way, codec), topic in topics.items():
        lay_under(broker.data, histories[codec], topic, way)
    if "clean" in ways:
        tell_in_checkpoints(broker.data, {topic: histories[codec] for (_, codec), topic in topics.items()})
    else:
        forget_in_checkpoints(broker.data, [f"{topic}-0" for topic in topics.values()])
    with broker, JavaClient(broker.bootstrap, log) as java:
        read = read_with_all(broker.bootstrap, java, list(topics.values()))
        times = {topic: java.times(topic, times_in(histories[codec])) for (_, codec), topic in topics.items()}
        served = {
            (way, codec): Served(topic, histories[codec], *append_with_java(java, topic))
            for (way, codec), topic in topics.items()
        }
    return Stage(broker.data, served, read, times, broker.printed())


@pytest.fixture(scope="module")
def stages(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stage]:
    directory = tmp_path_factory.mktemp("served")
    histories = {
        codec: write_history(directory / f"root-{codec.name}" / "ours-0", codec, killed=directory / codec.name)
        for codec in Codec
    }
    clean = serve(directory / "clean", ["clean"], histories)
    crashed = serve(directory / "crashed", ["crashed", "bare"], histories)
    return {"clean": clean, "crashed": crashed, "bare": crashed}


@pytest.fixture
def stage(stages: dict[str, Stage], way: str) -> Stage:
    return stages[way]


each_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
each_way = pytest.mark.parametrize("way", WAYS)


@each_way
def test_the_broker_finds_nothing_wrong(stage: Stage, way: str) -> None:
    """It complains of an index that it must rebuild, and only where we gave it none."""
    topics = [topic_of(way, codec) for codec in Codec]
    lines = [line for line in stage.printed.splitlines() if any(topic in line for topic in topics)]
    complaints = [line for line in lines if " ERROR " in line or " WARN " in line]
    assert lines
    if way == "bare":
        assert all("index" in line for line in complaints)
    else:
        assert complaints == []
    rebuilt = [line for line in lines if "ecovering unflushed segment" in line or "rebuilding index" in line]
    assert bool(rebuilt) == (way != "clean")


def test_a_log_too_small_for_an_index_entry_is_served_without_a_complaint(kafka_jars: Path, tmp_path: Path) -> None:
    """It has an empty offset index and no time index: Kafka makes that one."""
    with Log.open(tmp_path / "root" / "ours-0") as log:
        log.append([(b"key", b"value", START_MS)])
    path = Path(log.path)
    assert {file.suffix for file in path.glob("0*")} >= {".log", ".index"}
    assert not list(path.glob("*.timeindex"))
    with Broker(tmp_path / "broker") as broker, JavaClient(broker.bootstrap, tmp_path / "client.log") as java:
        java.create("tiny")
    tiny: Any = SimpleNamespace(path=path)
    lay_under(broker.data, tiny, "tiny", "clean")
    tell_in_checkpoints(broker.data, {"tiny": tiny})
    with broker, JavaClient(broker.bootstrap, tmp_path / "client.log") as java:
        assert [read.row.value for read in java.read("tiny", "read_uncommitted")] == [b"value"]
        assert java.times("tiny", [START_MS, START_MS + 1]) == [(START_MS, 0), None]
    lines = [line for line in broker.printed().splitlines() if "tiny" in line]
    assert lines
    words = (" ERROR ", " WARN ", "ecovering unflushed segment", "rebuilding index")
    assert [line for line in lines if any(word in line for word in words)] == []


@pytest.mark.row("S7", "M5")
@pytest.mark.row("S5", part="served by Kafka")
@pytest.mark.parametrize("client", ["java", *READERS])
@each_way
@each_codec
def test_clients_read_all_that_we_wrote(stage: Stage, codec: Codec, way: str, client: str) -> None:
    served = stage.served[way, codec]
    assert stage.read[client, served.topic, "read_uncommitted"] == served.history.records


@pytest.mark.row("T4", part="data partitions")
@pytest.mark.row("T5", part="served by Kafka")
@pytest.mark.parametrize("client", ["java", *READERS])
@each_way
@each_codec
def test_committed_clients_skip_what_we_aborted(stage: Stage, codec: Codec, way: str, client: str) -> None:
    served = stage.served[way, codec]
    assert served.history.aborted
    assert stage.read[client, served.topic, "read_committed"] == served.history.committed


@pytest.mark.row("C3")
@each_way
@each_codec
def test_the_broker_finds_the_same_record_for_a_time(stage: Stage, codec: Codec, way: str) -> None:
    """But for transaction markers, which Kafka's answer may name: ours is always a record."""
    served = stage.served[way, codec]
    times = times_in(served.history)
    records = [(read.row.timestamp_ms, read.offset) for read in served.history.records]
    with Log.open(served.history.path, read_only=True) as log:
        views = [view for chunk in log.scan().chunks() for view in chunk.batches()]
        markers = [(view.max_timestamp_ms, view.base_offset) for view in views if view.is_control]
        assert [log.offset_for_time(ms) for ms in times] == [first_from(ms, records) for ms in times]
    assert stage.times[served.topic] == [first_from(ms, records + markers) for ms in times]


def first_from(wanted: int, stamped: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The one with the lowest offset among (timestamp, offset) of at least a time."""
    return min((each for each in stamped if each[0] >= wanted), key=lambda each: each[1], default=None)


def copied(stage: Stage, topic: str, to: Path, *, ours: bool) -> Path:
    """The partition and the root's checkpoints, with or without our files in it."""
    partition = shutil.copytree(stage.data / f"{topic}-0", to / f"{topic}-0")
    for path in stage.data.iterdir():
        if path.is_file() and path.name != ".lock":
            shutil.copy(path, to)
    for path in partition.glob("logstore.*"):
        if not ours:
            path.unlink()
    return partition


@pytest.mark.row("S7", "M5")
@pytest.mark.row("S5", part="served by Kafka")
@pytest.mark.row("T5", part="served by Kafka")
@each_way
@each_codec
def test_we_read_what_the_broker_made_of_it(stage: Stage, codec: Codec, way: str, tmp_path: Path) -> None:
    served = stage.served[way, codec]
    history, appended = served.history, served.appended
    records = history.records + appended
    skipped = history.aborted | served.dropped
    partition = copied(stage, served.topic, tmp_path, ours=False)
    with Log.open(partition, read_only=True) as log:
        assert [read_of(record) for record in log.scan()] == records
        committed = [record.offset for record in log.scan(isolation="read_committed")]
        assert committed == [read.offset for read in records if read.offset not in skipped]
        assert log.last_stable_offset == log.log_end_offset
        marks = checkpoints.read_offsets((tmp_path / checkpoints.HIGH_WATERMARKS).read_bytes(), "")
        assert marks[TopicPartition(served.topic, 0)] == log.log_end_offset
        epochs = Epochs.load(Directory(partition))
        assert epochs is not None
        # Ours as the broker found them in the batches, then its own.
        with Log.open(history.path, read_only=True) as ours:
            own = [entry for entry in epochs.entries if entry.start_offset < ours.log_end_offset]
        assert own[:2] == list(Epochs.load(Directory(history.path)).entries)
        assert len(epochs.entries) > 2


@each_way
@each_codec
def test_the_log_goes_on_when_it_comes_back(stage: Stage, codec: Codec, way: str, tmp_path: Path) -> None:
    """Opened for writing, with our files of before in it or none: every batch of the broker is kept."""
    served = stage.served[way, codec]
    records = served.history.records + served.appended
    partition = copied(stage, served.topic, tmp_path, ours=True)
    (tmp_path / "logstore.topics").touch()
    with Log.open(partition, **SETTINGS) as log:
        assert log.metrics().cut_bytes == 0
        assert [read_of(record) for record in log.scan()] == records
        first = log.append([b"back again"]).first_offset
    with Log.open(partition, read_only=True) as log:
        assert log.log_end_offset == first + 1
        skipped = served.history.aborted | served.dropped
        committed = [record.offset for record in log.scan(isolation="read_committed")]
        assert committed == [*(read.offset for read in records if read.offset not in skipped), first]


def read_of(record: object) -> Read:
    row = Row(record.timestamp_ms, record.key, record.value, record.headers)
    return Read(record.offset, row)
