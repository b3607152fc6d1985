"""``logstore segment``: files listed, dumped, verified and repaired."""

from __future__ import annotations

import json

import pytest

import logstore
from logstore import Log
from tests.kit.logs import open_log, tree
from tests.log.tools.test_verify import VALUES, flip, logs, partition

__all__ = ["partition"]


def test_segments_are_listed_with_their_sizes(run, partition):
    rows = run.json("segment", "list", partition)
    assert [row["path"] for row in rows] == [str(path) for path in logs(partition)]
    assert [row["size"] for row in rows] == [path.stat().st_size for path in logs(partition)]
    assert rows[0]["partition"] == "t-0"
    assert len(run("segment", "list", logs(partition)[0], logs(partition)[1]).splitlines()) == 3


def test_batches_are_dumped_in_kafkas_words(run, partition):
    (first, *_) = run("segment", "dump", logs(partition)[0]).splitlines()
    assert first.startswith("baseOffset: 0 lastOffset: 3 count: 4 baseSequence: -1 ")
    assert " isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 " in first
    assert first.endswith(" magic: 2 compresscodec: none crc: " + first.split("crc: ")[1])
    assert first.endswith("isvalid: true")


def test_records_are_dumped_by_looking_deep(run, partition):
    lines = run("segment", "dump", "--deep", "-c", 2, partition).splitlines()
    assert (
        lines[1] == "| offset: 0 CreateTime: 1000000 keySize: -1 valueSize: 10 headerKeys: [] payload: value 0000"
    )
    found = [json.loads(line) for line in run("segment", "dump", "--deep", "--json", partition).splitlines()]
    values = [entry["value"]["text"].encode() for entry in found if "value" in entry]
    assert values == VALUES
    assert [entry["base_offset"] for entry in found if "base_offset" in entry] == list(range(0, 400, 4))


def test_a_dump_may_begin_at_an_offset(run, partition):
    assert run.json("segment", "dump", partition, "--offset", 198, "-c", 1)[0]["base_offset"] == 196


def test_index_files_are_dumped(run, partition):
    log = logs(partition)[0]
    entries = run.json("segment", "dump", log.with_suffix(".index"))
    positions = {entry["position"]: entry for entry in run.json("segment", "dump", log)}
    assert len(entries) > 3
    assert all(positions[entry["position"]]["last_offset"] == entry["offset"] for entry in entries)
    times = run("segment", "dump", log.with_suffix(".timeindex"), "-c", 1)
    assert times.startswith("timestamp: 100")


def test_producers_and_aborted_transactions_are_dumped(run, tmp_path):
    from logstore.log import Marker, ProducerStamp

    with open_log(tmp_path) as log:
        log.append([b"x"], producer=ProducerStamp(7, 0, 0, transactional=True))
        log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0)
    (snapshot,) = (tmp_path / "t-0").glob("*.snapshot")
    (producer,) = run.json("segment", "dump", snapshot)
    assert (producer["producer_id"], producer["producer_epoch"]) == (7, 0)
    (aborted,) = run.json("segment", "dump", *(tmp_path / "t-0").glob("*.txnindex"))
    assert (aborted["producer_id"], aborted["first_offset"], aborted["last_offset"]) == (7, 0, 1)


@pytest.mark.row("S8")
def test_damage_is_named_with_file_position_and_offset(run, partition):
    assert run("segment", "verify", partition) == ""
    path = logs(partition)[2]
    base = int(path.stem)
    flip(path, 70)
    out = run("segment", "verify", partition, status=1)
    assert out.startswith(f"damage: {path}, position 0, offset {base}: ")
    (problem,) = run.json("segment", "verify", partition, status=1)
    assert (problem["kind"], problem["path"], problem["position"], problem["offset"]) == (
        "damage",
        str(path),
        0,
        base,
    )
    assert run("segment", "verify", logs(partition)[1]) == ""
    said = run.error("segment", "dump", path)
    assert f"file {path}, position 0" in said


def test_every_partition_of_a_store_is_verified(flights):
    assert "3 partition(s)" not in flights.result("segment", "verify").stderr
    assert "2 partition(s): no problem(s)" in flights.result("segment", "verify", "--deep").stderr
    flip(flights.directory / "flights-1" / "00000000000000000000.log", 70)
    assert "flights-1" in flights("segment", "verify", status=1)


def test_a_loss_between_segments_is_named_until_it_is_accepted(flights):
    with Log.open(flights.directory / "flights-0") as log:
        log.maintenance.roll()
        log.append([b"a"])
        log.maintenance.roll()
        log.append([b"b"])
    middle = sorted((flights.directory / "flights-0").glob("*.log"))[1]
    middle.unlink()
    assert "missing" in flights("segment", "verify", status=1)
    flights("segment", "verify", "--compacted")
    flights("topic", "alter", "flights", "cleanup.policy=compact", "--drop-keyless")
    assert "missing" in flights("segment", "verify", status=1), "a compaction of ours leaves no gap"
    assert "missing" in flights("doctor", status=1)
    assert "are missing" in flights.result("export", "flights").stderr
    flights("segment", "repair", "--accept-gaps", middle.parent)
    flights("segment", "verify")
    assert "offset(s) are missing between segments" in flights("doctor", "--all")


def test_indexes_are_made_again(run, partition):
    for path in partition.glob("*index"):
        path.write_bytes(b"rubbish!" * 3)
    assert "index: " in run("segment", "verify", partition, status=1)
    made = run("segment", "rebuild-index", partition).splitlines()
    # The active segment has no entry yet, and so no time index.
    assert len(made) == 2 * len(logs(partition)) - 1
    run("segment", "verify", partition)


def test_a_repair_needs_its_word_and_keeps_what_it_takes(run, partition):
    flip(logs(partition)[1], 70)
    before = tree(partition)
    result = run.result("segment", "repair", partition)
    assert (result.exit_code, tree(partition)) == (1, before)
    assert "damage: " in result.stdout
    assert "--yes-cut-damage" in result.stderr
    (cut,) = run.json("segment", "repair", "--yes-cut-damage", partition)
    assert cut["offset"] == int(logs(partition)[1].stem)
    assert len(list((partition / ".repaired" / "1").iterdir())) == 1 + cut["size"] // 3_000
    run("segment", "verify", partition)
    assert run("segment", "repair", partition) == ""
    with open_log(partition.parent) as log:
        assert log.log_end_offset == cut["offset"]


def test_a_partition_that_has_lost_every_segment_is_named(run, tmp_path):
    with logstore.open(tmp_path / "data") as store:
        for topic in ("gone", "empty", "whole"):
            store.create_topic(topic)
        for topic in ("gone", "whole"):
            store[topic].append(b"value", ack="synced")
        store["empty"][0].flush()
    for path in (tmp_path / "data" / "gone-0").glob("*.log"):
        path.unlink()
    for command in (("segment", "verify"), ("doctor",)):
        result = run.result(*command, "-d", tmp_path / "data")
        assert result.exit_code == 1
        assert "gone-0" in result.stdout
        assert "offsets up to 0 were promised" in result.stdout
        assert "empty-0" not in result.stdout
        assert "whole-0" not in result.stdout
