"""``logstore segment`` beside Kafka: the same dump of the same files, and partitions repaired for a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logstore.cli import output
from logstore.cli.main import cli
from logstore.records import Codec
from tests.interop.broker import Broker
from tests.interop.clients import JavaClient, Row
from tests.interop.histories import History, write_history
from tests.interop.make_fixtures import START_MS
from tests.interop.test_dump import dump
from tests.kit.files import flip

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.usefixtures("kafka_jars")]


def segment(*words: object) -> Result:
    return CliRunner().invoke(cli, ["segment", *map(str, words)])


def lines_of(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.fixture(scope="module", params=[Codec.NONE, Codec.ZSTD], ids=lambda codec: codec.name.lower())
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> History:
    directory = tmp_path_factory.mktemp("history")
    return write_history(directory / "root" / "ours-0", request.param, killed=directory / "killed")


@pytest.mark.row("S5", part="one process")
def test_batches_are_dumped_as_kafka_dumps_them(history: History) -> None:
    files = sorted(history.path.glob("*.log"))
    theirs = [line for line in dump(files) if line.startswith("baseOffset: ")]
    assert lines_of(segment("dump", *files)) == theirs
    assert len(theirs) > 20


@pytest.mark.parametrize(("suffix", "beginning"), [(".index", "offset: "), (".timeindex", "timestamp: ")])
def test_indexes_are_dumped_as_kafka_dumps_them(history: History, suffix: str, beginning: str) -> None:
    count = 0
    for path in sorted(history.path.glob(f"*{suffix}")):
        if path.stat().st_size:  # of an empty one, Kafka's tool prints an entry of zeros
            theirs = [line.strip() for line in dump([path]) if line.startswith(beginning)]
            assert lines_of(segment("dump", path)) == theirs
            count += len(theirs)
    assert count > 3


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Broker:
    """A broker with a topic of some segments; it was looked at while it ran, and is stopped."""
    directory = tmp_path_factory.mktemp("mended")
    broker = Broker(directory / "broker", log_index_interval_bytes=200)
    with broker, JavaClient(broker.bootstrap, directory / "client.log") as java:
        java.create("flights", internal_segment_bytes=20_000)
        java.open("p")
        for n in range(60):
            java.send("p", "flights", [Row(START_MS + n, None, b"%04d" % n * 300)])
        partition = broker.data / "flights-0"
        looked = segment("verify", partition)
        assert (looked.exit_code, looked.stdout) == (0, "")
        refused = segment("rebuild-index", partition)
        assert refused.exit_code == output.RETRY
        assert f"pid {broker.pid}" in refused.stderr
    return broker


def values_served(broker: Broker, directory: Path) -> list[bytes | None]:
    with broker, JavaClient(broker.bootstrap, directory / "client.log") as java:
        return [read.row.value[:4] if read.row.value else None for read in java.read("flights", "read_uncommitted")]


def test_a_broker_takes_indexes_that_we_made_again(stopped: Broker, tmp_path: Path) -> None:
    partition = stopped.data / "flights-0"
    for path in (*partition.glob("*.index"), *partition.glob("*.timeindex")):
        path.unlink()
    assert segment("rebuild-index", partition).exit_code == 0
    assert segment("verify", "--deep", partition).exit_code == 0
    assert not list(partition.glob("logstore.*"))
    printed = len(stopped.printed())
    assert values_served(stopped, tmp_path) == [b"%04d" % n for n in range(60)]
    assert "index file" not in stopped.printed()[printed:]  # as where one is missing or corrupt


def test_a_broker_serves_what_a_repair_has_left(stopped: Broker, tmp_path: Path) -> None:
    partition = stopped.data / "flights-0"
    log = sorted(partition.glob("*.log"))[1]
    flip(log, 100)
    assert f"damage: {log}, position 0, offset {int(log.stem)}" in segment("verify", partition).stdout
    cut = segment("repair", "--yes-cut-damage", partition)
    assert (cut.exit_code, f"the log ends at offset {int(log.stem)}" in cut.stdout) == (0, True)
    assert not list(partition.glob("logstore.*"))
    assert values_served(stopped, tmp_path) == [b"%04d" % n for n in range(int(log.stem))]
