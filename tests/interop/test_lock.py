"""One process writes a root: a broker and we keep each other out by the same lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logstore import Log
from logstore.errors import DirectoryLockedError
from tests.interop.broker import Broker, BrokerFailedError
from tests.interop.clients import JavaClient, Row
from tests.interop.make_fixtures import START_MS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.usefixtures("kafka_jars")]


def test_a_root_that_a_broker_writes_is_refused(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        with JavaClient(broker.bootstrap, tmp_path / "client.log") as java:
            java.create("held")
            java.open("p")
            java.send("p", "held", [Row(START_MS, None, b"theirs")])
        (broker.data / "logstore.topics").touch()  # even where we are told that it is ours
        with pytest.raises(DirectoryLockedError, match=f"locked by pid {broker.pid}"):
            Log.open(broker.data / "held-0")
        with Log.open(broker.data / "held-0", read_only=True) as log:
            assert log.log_end_offset == 1
    with Log.open(broker.data / "held-0") as log:
        log.append([b"ours"])
        assert [record.value for record in log.scan()] == [b"theirs", b"ours"]


def test_a_broker_does_not_start_on_a_root_that_we_write(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    with Log.open(broker.data / "ours-0") as log:
        log.append([b"ours"])
        with pytest.raises(BrokerFailedError, match="did not start"):
            broker.start()
        assert "Failed to acquire lock on file .lock" in broker.printed()
        log.append([b"still ours"])
        assert f"pid={os.getpid()}" in (broker.data / ".lock").read_text()
