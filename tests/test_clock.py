"""How long a call may wait: what is no number is refused by every call that takes a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore import aio
from logstore.clock import SYSTEM_CLOCK, seconds_of
from logstore.errors import ConfigError
from logstore.io._notifier import Notifier
from logstore.log import Log
from logstore.log.marks._watermark import Watermark
from logstore.log.read.wait import OffsetListener
from logstore.records import Isolation
from logstore.remote.client import Client
from logstore.spark.pipelines.parameters import Parameters
from logstore.spark.writing.options import seconds_of as seconds_of_option
from logstore.store import commit_client
from logstore.store.commit.staged_writer import Manifest
from logstore.testing.clock import ManualClock

NAN = float("nan")
NO_NUMBERS = [NAN, True, "1", b"1", [1]]
#: A call that should return at once may take so long; only one that hangs does.
PATIENCE_S = 300


def of(call: Callable[[], Any]) -> Any:
    """What a call gives or raises, which has to come at all."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:  # noqa: BLE001  the thread hands on whatever was raised
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert found, "the call hangs"
    return found[0]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_every_call_that_waits_refuses_what_is_no_number(tmp_path: Path, value: Any) -> None:
    with logstore.open(tmp_path / "data", flush_messages=1) as store:
        topic = store.create_topic("flights")
        topic.append(b"AA")
        log = topic[0]
        consumer = store.consumer(auto_offset_reset="latest")
        consumer.assign_topics(["flights"])
        producer = store.producer({"linger.ms": 60_000})
        future = producer.send("flights", b"UA")
        with logstore.open(tmp_path / "data", read_only=True) as beside:
            reader = beside.topic("flights")[0]
            calls: dict[str, Callable[[], Any]] = {
                "poll": lambda: consumer.poll(timeout_s=value),
                "records": lambda: consumer.records(timeout_s=value),
                "read": lambda: log.read(1, timeout_s=value),
                "Topic.read": lambda: topic.read(0, 1, timeout_s=value),
                "wait_for": lambda: log.wait_for(9, timeout_s=value),
                "reader.read": lambda: reader.read(1, timeout_s=value),
                "reader.wait_for": lambda: reader.wait_for(9, timeout_s=value),
                "flush": lambda: producer.flush(timeout_s=value),
                "close": lambda: producer.close(timeout_s=value),
                "result": lambda: future.result(value),
                "exception": lambda: future.exception(value),
                "Watermark.wait_for": lambda: Watermark(1).wait_for(2, value),
                "Watermark.wait_while": lambda: Watermark(1).wait_while(1, value),
                "Bell.wait": lambda: Notifier().wait(value),
                "OffsetListener.wait": lambda: OffsetListener(
                    Isolation.READ_COMMITTED, Notifier(), SYSTEM_CLOCK
                ).wait([], value),
            }
            answers = {name: of(call) for name, call in calls.items()}
        wrong = {name: answer for name, answer in answers.items() if not isinstance(answer, ConfigError)}
        assert not wrong
        assert repr(value) in str(answers["poll"])
        producer.close()
        assert future.result(0).offset == 1, "a refused close has dropped what was gathered"


@pytest.mark.parametrize("value", [NAN, "1"], ids=repr)
def test_an_asynchronous_call_refuses_what_is_no_number(tmp_path: Path, value: Any) -> None:
    async def main() -> None:
        async with aio.open(tmp_path / "data") as store:
            await store.create_topic("flights")
            async with store.consumer(auto_offset_reset="latest") as consumer:
                await consumer.assign_topics(["flights"])
                with pytest.raises(ConfigError, match="timeout_s"):
                    await consumer.poll(timeout_s=value)
                with pytest.raises(ConfigError, match="timeout_s"):
                    await anext(consumer.records(timeout_s=value))

    answer = of(lambda: asyncio.run(main()))
    assert answer is None, repr(answer)


@pytest.mark.parametrize("value", [NAN, True, "soon", -1, 2**31, float("inf")], ids=repr)
def test_an_appender_takes_no_linger_or_size_that_is_none(tmp_path: Path, value: Any) -> None:
    with Log.open(tmp_path / "flights-0") as log:
        for name in ("linger_ms", "batch_bytes"):
            with pytest.raises(ConfigError, match="refused"):
                log.appender(**{name: value})


@pytest.mark.parametrize("value", [NAN, True, "soon", float("inf"), -1], ids=repr)
def test_a_client_of_brokers_takes_no_time_that_is_none(value: Any) -> None:
    client = Client("127.0.0.1:9", default_api_timeout_ms=0)
    for call in (client.create_topics, client.delete_topics):
        with pytest.raises(ConfigError, match="timeout_ms"):
            call(["flights"], timeout_ms=value)
    for name in ("request_timeout_ms", "default_api_timeout_ms", "retry_backoff_ms"):
        with pytest.raises(ConfigError):
            Client("127.0.0.1:9", **{name: value})


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_a_commit_of_staged_files_takes_no_time_that_is_none(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigError, match="timeout_s"):
        commit_client.commit(tmp_path, Manifest("query", 1, "exactly_once", ()), timeout_s=value)


@pytest.mark.parametrize("word", ["nan", "inf", "-1", "0", "true", ""])
def test_an_option_of_spark_takes_no_time_that_is_none(word: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        seconds_of_option(word)


@pytest.mark.parametrize("value", [NAN, float("inf"), -1.0])
def test_a_pipeline_takes_no_interval_that_is_none(value: float) -> None:
    with pytest.raises(ConfigError, match="interval_s"):
        Parameters(path="data", checkpoint="state", interval_s=value)


@pytest.mark.parametrize("value", [NAN, float("inf"), -1.0])
def test_the_clock_of_a_test_moves_by_numbers_only(value: float) -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="forward"):
        clock.advance(value)
    clock.advance(1)
    assert clock.now_ms() == ManualClock().now_ms() + 1


def test_infinity_waits_without_end_and_a_negative_time_does_not_wait(tmp_path: Path) -> None:
    assert seconds_of(float("inf")) is None
    assert seconds_of(1e300) is None, "longer than a lock can wait"
    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights")
        consumer = store.consumer(auto_offset_reset="earliest")
        consumer.assign_topics(["flights"])
        assert consumer.poll(timeout_s=-1) == []
        assert not topic[0].wait_for(0, timeout_s=-float("inf"))
        began = threading.Event()

        def wait() -> list[bytes | None]:
            began.set()
            return [record.value for record in consumer.poll(timeout_s=float("inf"))]

        writer = threading.Thread(target=lambda: (began.wait(PATIENCE_S), topic.append(b"AA")))
        writer.start()
        assert of(wait) == [b"AA"]
        writer.join()
