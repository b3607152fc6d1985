"""A real broker serves partitions that we wrote, appends to them, and we read the result.

Each codec twice: the partition's directory as we leave it, and nothing but its ``.log`` files. The
broker is told that it does not know these files, as after a crash, so it checks every batch itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from logstore import Log
from logstore.log import checkpoint
from logstore.log.epochs import Epochs
from logstore.log.files import Directory
from logstore.records import Codec, TopicPartition
from tests.interop.broker import Broker, forget_in_checkpoints
from tests.interop.clients import PYTHON_READERS, JavaClient, Read, Row
from tests.interop.histories import SETTINGS, History, write_history
from tests.interop.make_fixtures import AWKWARD, START_MS, several, words

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

FORMS = ("as we left it", "segments alone")


class Served(NamedTuple):
    """A partition of ours under a broker, and what the broker's clients appended to it."""

    topic: str
    history: History
    appended: list[Read]
    dropped: set[int]  #: offsets of what they appended and aborted


class Stage(NamedTuple):
    """Two runs of a broker over our partitions: one that reads, one that appends; it is stopped now."""

    data: Path
    served: dict[tuple[str, Codec], Served]
    read: dict[tuple[str, str, str], list[Read]]  #: by client, topic, isolation
    printed: str


def topic_of(form: str, codec: Codec) -> str:
    return f"{codec.name.lower()}-{FORMS.index(form)}"


def lay_under(data: Path, history: History, topic: str, form: str) -> None:
    """Put a partition of ours in the place of one that the stopped broker has created."""
    place = data / f"{topic}-0"
    for path in place.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in history.path.iterdir():
        if form == FORMS[0] or path.suffix == ".log":
            shutil.copy(path, place)


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


@pytest.fixture(scope="module")
def stage(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("served")
    broker = Broker(directory / "broker")
    histories = {
        codec: write_history(directory / f"root-{codec.name}" / "ours-0", codec, killed=directory / codec.name)
        for codec in Codec
    }
    topics = {(form, codec): topic_of(form, codec) for form in FORMS for codec in Codec}
    log = directory / "client.log"
    with broker, JavaClient(broker.bootstrap, log) as java:
        for topic in topics.values():
            java.create(topic, internal_segment_bytes=250_000)
    for (form, codec), topic in topics.items():
        lay_under(broker.data, histories[codec], topic, form)
    forget_in_checkpoints(broker.data, [f"{topic}-0" for topic in topics.values()])
    read, served = {}, {}
    with broker, JavaClient(broker.bootstrap, log) as java:
        for topic in topics.values():
            for isolation in ("read_uncommitted", "read_committed"):
                read["java", topic, isolation] = java.read(topic, isolation)
                for name, reader in PYTHON_READERS.items():
                    read[name, topic, isolation] = reader(broker.bootstrap, topic, isolation)
        for (form, codec), topic in topics.items():
            served[form, codec] = Served(topic, histories[codec], *append_with_java(java, topic))
    yield Stage(broker.data, served, read, broker.printed())


each_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
each_form = pytest.mark.parametrize("form", FORMS)


def test_the_broker_finds_nothing_wrong(stage: Stage) -> None:
    """It says so of an index that it must make anew, and only where we gave it none."""
    complaints = [
        line
        for line in stage.printed.splitlines()
        if (" ERROR " in line or " WARN " in line) and any(served.topic in line for served in stage.served.values())
    ]
    given = [line for line in complaints if any(topic_of(FORMS[0], codec) in line for codec in Codec)]
    assert given == []
    assert all("index" in line for line in complaints)


@pytest.mark.row("S5", "S7", "M5")
@pytest.mark.parametrize("client", ["java", *PYTHON_READERS])
@each_form
@each_codec
def test_clients_read_all_that_we_wrote(stage: Stage, codec: Codec, form: str, client: str) -> None:
    served = stage.served[form, codec]
    assert stage.read[client, served.topic, "read_uncommitted"] == served.history.records


@pytest.mark.row("T4", "T5")
@pytest.mark.parametrize("client", ["java", *PYTHON_READERS])
@each_form
@each_codec
def test_committed_clients_skip_what_we_aborted(stage: Stage, codec: Codec, form: str, client: str) -> None:
    served = stage.served[form, codec]
    assert served.history.aborted
    assert stage.read[client, served.topic, "read_committed"] == served.history.committed


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


@pytest.mark.row("S5", "S7", "M5", "T5")
@each_form
@each_codec
def test_we_read_what_the_broker_made_of_it(stage: Stage, codec: Codec, form: str, tmp_path: Path) -> None:
    served = stage.served[form, codec]
    history, appended = served.history, served.appended
    records = history.records + appended
    skipped = history.aborted | served.dropped
    partition = copied(stage, served.topic, tmp_path, ours=False)
    with Log.open(partition, read_only=True) as log:
        assert [read_of(record) for record in log.scan()] == records
        committed = [record.offset for record in log.scan(isolation="read_committed")]
        assert committed == [read.offset for read in records if read.offset not in skipped]
        assert log.last_stable_offset == log.log_end_offset
        marks = checkpoint.read_offsets((tmp_path / checkpoint.HIGH_WATERMARKS).read_bytes(), "")
        assert marks[TopicPartition(served.topic, 0)] == log.log_end_offset
        epochs = Epochs.load(Directory(partition))
        assert epochs is not None
        # Ours as the broker found them in the batches, then its own.
        with Log.open(history.path, read_only=True) as ours:
            own = [entry for entry in epochs.entries if entry.start_offset < ours.log_end_offset]
        assert own[:2] == list(Epochs.load(Directory(history.path)).entries)
        assert len(epochs.entries) > 2


@each_form
@each_codec
def test_the_log_goes_on_when_it_comes_back(stage: Stage, codec: Codec, form: str, tmp_path: Path) -> None:
    """Opened for writing, with our files of before in it or none: every batch of the broker is kept."""
    served = stage.served[form, codec]
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
