"""Leader epochs of logs that were closed before they are served, or killed: what clients are told and read.

librdkafka sends epoch 0 where it knows none, and fetches nothing until the metadata name the epoch of the log.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import confluent_kafka
import pytest

import logstore
from logstore.broker import serve
from logstore.remote.client import Client
from logstore.store import Store

RECORDS = 20
ANSWER_S = 20.0


def made(place: Path, epoch: int) -> Store:
    store = logstore.open(place)
    flights = store.create_topic("flights", 2)
    log = flights.log(0)
    if epoch:
        log.replica.begin_epoch(epoch)
    for n in range(RECORDS):
        log.append([b"%d" % n])
    return store


def killed(place: Path, epoch: int, to: Path) -> Path:
    """Return the files of a store as a kill leaves them."""
    with made(place, epoch) as store:
        shutil.copytree(store.path, to, ignore=shutil.ignore_patterns("*.socket"))
    return to


def epochs_told(bootstrap: str, topics: Iterable[str] | None) -> list[int]:
    with Client(bootstrap) as client:
        partitions = client.metadata(topics).topics["flights"].partitions
        return [partitions[number].leader_epoch for number in range(2)]


def values_of(bootstrap: str) -> list[bytes | None]:
    """Return what confluent-kafka reads of the first partition."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition("flights", 0, confluent_kafka.OFFSET_BEGINNING)])
    found = consumer.consume(RECORDS, ANSWER_S)
    consumer.close()
    return [message.value() for message in found]


@pytest.mark.row("O4")
@pytest.mark.parametrize("epoch", [0, 5])
def test_the_epoch_of_a_closed_log_is_told_without_opening_it(tmp_path: Path, epoch: int) -> None:
    made(tmp_path / "data", epoch).close()
    with logstore.open(tmp_path / "data") as store, serve(store, "127.0.0.1:0") as broker:
        assert epochs_told(broker.bootstrap, ["flights"]) == [epoch, 0]
        assert epochs_told(broker.bootstrap, None) == [-1, -1]  # of all topics there may be many
        assert values_of(broker.bootstrap) == [b"%d" % n for n in range(RECORDS)]
        assert epochs_told(broker.bootstrap, None) == [epoch, -1]


@pytest.mark.row("O4")
@pytest.mark.parametrize("epoch", [0, 5])
def test_a_log_that_was_not_closed_is_read(tmp_path: Path, epoch: int) -> None:
    """Its epoch rises when it is opened, so that nothing tells it before."""
    place = killed(tmp_path / "data", epoch, tmp_path / "killed")
    with logstore.open(place) as store, serve(store, "127.0.0.1:0") as broker:
        assert epochs_told(broker.bootstrap, ["flights"]) == [-1, 0]
        assert values_of(broker.bootstrap) == [b"%d" % n for n in range(RECORDS)]
        assert epochs_told(broker.bootstrap, ["flights"]) == [epoch + 1, 0]


def test_a_log_whose_epochs_are_lost_is_read(tmp_path: Path) -> None:
    made(tmp_path / "data", 5).close()
    (tmp_path / "data" / "flights-0" / "leader-epoch-checkpoint").unlink()
    with logstore.open(tmp_path / "data") as store, serve(store, "127.0.0.1:0") as broker:
        assert epochs_told(broker.bootstrap, ["flights"]) == [-1, 0]
        assert values_of(broker.bootstrap) == [b"%d" % n for n in range(RECORDS)]
        assert epochs_told(broker.bootstrap, ["flights"]) == [5, 0]
