"""kcat, unchanged, on our broker: metadata, offsets by time, and records of each codec written and read."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

import logstore
from logstore.records import Codec
from tests.broker.process import ServedProcess, served_process
from tests.interop.make_fixtures import START_MS

KCAT = shutil.which("kcat")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120),
    pytest.mark.skipif(KCAT is None, reason="kcat is missing (apt install kcat, or brew install kcat)"),
]

WAIT_S = 60


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    with served_process(tmp_path_factory.mktemp("kcat") / "data") as process:
        yield process


def _kcat(ours: ServedProcess, *words: str, input: bytes = b"") -> bytes:
    command = [str(KCAT), "-b", ours.bootstrap, *words]
    done = subprocess.run(command, input=input, capture_output=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.row("M5")
@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_records_are_written_and_read(ours: ServedProcess, codec: str) -> None:
    topic = f"kcat-{codec}"
    with logstore.connect(ours.bootstrap) as cluster:
        cluster.create_topic(topic, 2)
    lines = [b"k%d:value %d %s" % (n, n, b"x" * (n % 300)) for n in range(1_000)]
    headers = ("-H", "origin=kcat", "-H", "empty=")
    _kcat(ours, "-P", "-t", topic, "-p", "1", "-K:", "-z", codec, *headers, input=b"\n".join(lines))
    # With -Z an empty value is null; idempotent.
    null = ("-P", "-t", topic, "-p", "1", "-K:", "-Z", "-z", codec, "-X", "enable.idempotence=true")
    _kcat(ours, *null, input=b"gone:")
    with logstore.connect(ours.bootstrap) as cluster:
        found = list(cluster[topic].read(1, max_bytes=1 << 30))
    assert [b"%s:%s" % (each.key, each.value or b"") for each in found] == [*lines, b"gone:"]
    assert found[-1].value is None
    assert all(each.headers == (("origin", b"kcat"), ("empty", b"")) for each in found[:-1])
    printed = _kcat(ours, "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q", "-J")
    read = [json.loads(line) for line in printed.splitlines()]
    assert [(each["partition"], each["offset"]) for each in read] == [(1, n) for n in range(1_001)]
    assert [each["ts"] for each in read] == [each.timestamp_ms for each in found]
    assert [each["key"] for each in read] == [f"k{n}" for n in range(1_000)] + ["gone"]
    assert read[-1]["payload"] is None
    assert read[0]["headers"] == ["origin", "kcat", "empty", ""]
    last = _kcat(ours, "-C", "-t", topic, "-p", "1", "-o", "-2", "-c", "1", "-q", "-f", "%o %k")
    assert last.split() == [b"999", b"k999"]


def test_metadata_are_listed(ours: ServedProcess) -> None:
    with logstore.connect(ours.bootstrap) as cluster:
        cluster.create_topic("listed", 3)
    told = json.loads(_kcat(ours, "-L", "-J"))
    assert told["brokers"] == [{"id": 1, "name": ours.bootstrap}]
    (topic,) = [each for each in told["topics"] if each["topic"] == "listed"]
    assert [
        (each["partition"], each["leader"], each["replicas"], each["isrs"]) for each in topic["partitions"]
    ] == [(number, 1, [{"id": 1}], [{"id": 1}]) for number in range(3)]
    (topic,) = json.loads(_kcat(ours, "-L", "-J", "-t", "listed"))["topics"]
    assert topic["topic"] == "listed"


def test_offsets_are_found_by_time(ours: ServedProcess) -> None:
    with logstore.connect(ours.bootstrap) as cluster:
        topic = cluster.create_topic("times", retention_ms=-1)
        for n in range(10):
            topic.append(b"%d" % n, timestamp=START_MS + 10 * n)
        topic.delete_records({0: 2})

    def offset(when: int) -> str:
        return _kcat(ours, "-Q", "-t", f"times:0:{when}").decode().split("offset ")[1].strip()

    wanted = {START_MS + 41: "5", START_MS + 90: "9", START_MS + 91: "-1", -1: "10", -2: "2"}
    assert {when: offset(when) for when in wanted} == wanted
    read = _kcat(ours, "-C", "-t", "times", "-o", f"s@{START_MS + 41}", "-e", "-q", "-f", "%s ")
    assert read == b"5 6 7 8 9 "


def test_a_topic_is_made_by_its_first_record(ours: ServedProcess) -> None:
    _kcat(ours, "-P", "-t", "made", input=b"one\ntwo\n")
    assert _kcat(ours, "-C", "-t", "made", "-e", "-q", "-o", "beginning") == b"one\ntwo\n"


def test_a_partition_that_is_missing_is_said(ours: ServedProcess) -> None:
    with logstore.connect(ours.bootstrap) as cluster:
        cluster.create_topic("parts", 3)
    command = [str(KCAT), "-b", ours.bootstrap, "-C", "-t", "parts", "-p", "99", "-e", "-q"]
    done = subprocess.run(command, capture_output=True, timeout=WAIT_S, check=False)
    assert done.returncode != 0
    assert b"partition 99 does not exist" in done.stderr
