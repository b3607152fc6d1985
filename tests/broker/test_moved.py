"""A broker that comes back at another address: open clients find it by their bootstrap servers (KIP-899)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import logstore
from tests.broker.process import ServedProcess
from tests.kit.waiting import wait_for

PATIENCE_S = 60


@pytest.mark.row("C14", part="served by logstore")
def test_a_producer_and_a_consumer_find_a_broker_that_has_moved(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        later = f"127.0.0.1:{free.getsockname()[1]}"
    served = ServedProcess(tmp_path / "data")
    settings = {"reconnect.backoff.max.ms": 100}
    with (
        logstore.connect(f"{served.bootstrap},{later}", settings) as cluster,
        cluster.producer(linger_ms=0) as producer,
        cluster.consumer(auto_offset_reset="earliest") as consumer,
    ):
        cluster.create_topic("flights")
        consumer.assign([("flights", 0)])
        found: list[bytes] = []

        def reads(count: int) -> bool:
            found.extend(bytes(record.value) for record in consumer.poll(0.1))
            return len(found) >= count

        producer.send("flights", b"before").result(PATIENCE_S)
        wait_for(lambda: reads(1), PATIENCE_S)
        served.kill()
        waiting = producer.send("flights", b"meanwhile")
        served.start(later)
        assert waiting.result(PATIENCE_S).offset == 1
        assert producer.send("flights", b"after").result(PATIENCE_S).offset == 2
        wait_for(lambda: reads(3), PATIENCE_S)
        assert found == [b"before", b"meanwhile", b"after"]
        assert cluster.topics() == ["flights"]
    served.kill()
