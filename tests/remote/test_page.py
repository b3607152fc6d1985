"""The page on the client is run, with brokers of this process in place of the ones that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logstore.batch._encode import encode
from logstore.config.remote import WireConfig
from logstore.config.schema import keys_of
from logstore.protocol.generated.messages import ListOffsetsRequest
from logstore.remote.producer import IdempotentProducer
from tests.remote.fake_cluster import FakeCluster

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "client.md"


@pytest.mark.skipif(not PAGE.exists(), reason="no source tree around the tests")
def test_what_the_page_shows_runs(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    with FakeCluster() as cluster:
        reading = reading.replace("broker-1:9092,broker-2:9092", cluster.bootstrap)
        made = 'client.create_topics([NewTopic("orders", partitions=3, settings={"retention.ms": "-1"})])\n'
        assert made in reading
        script = f"{reading}\n{writing}".replace(made, f"{made}    fill(client)\n", 1)
        # The block about producing stands inside the one that has opened the client.
        head, tail = script.split("from logstore.records import Codec")
        script = f"{head}\n{_indented('from logstore.records import Codec' + tail)}"

        def fill(client: object) -> None:
            cluster.topics["orders"].partitions[0].add([b"a", b"b"])

        exec(script, {"fill": fill, "batches_of_bytes": encode([b"c"], timestamp_ms=1)})
        assert capsys.readouterr().out == "2\n2 2\n"
        assert cluster.requests(ListOffsetsRequest)
        assert IdempotentProducer.__name__ in writing


def _indented(text: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))


@pytest.mark.skipif(not PAGE.exists(), reason="no source tree around the tests")
def test_the_page_names_every_setting() -> None:
    named = set(re.findall(r"`([a-z.]+)`", PAGE.read_text("utf-8")))
    missing = {key for key in keys_of(WireConfig) if key not in named and not key.endswith((".level", ".type"))}
    assert missing <= {"isolation.level"}
