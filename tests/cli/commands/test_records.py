"""produce and consume, import and export: bytes in, the same bytes out."""

from __future__ import annotations

import json
import signal
import struct

import pytest

import logstore
from logstore.cli.commands.consume import formatter
from logstore.config.quantities import time_ms
from logstore.log import Log
from tests.kit.logs import tree
from tests.store.requests.owners import owner


def records(run, topic, **options):
    with logstore.open(run.directory, read_only=True, environ={}) as store:
        return [
            (r.partition, r.key, r.value, r.headers)
            for log in store.topic(topic).partitions
            for r in log.scan(log.log_start_offset, log.high_watermark)
        ]


# --- produce -----------------------------------------------------------------------------------


def test_lines_become_records(run):
    run("produce", "words", "--create", input=b"one\n\ntwo\nthree")
    assert [value for _, _, value, _ in records(run, "words")] == [b"one", b"", b"two", b"three"]


def test_lines_have_keys_headers_and_a_partition(run):
    run("topic", "create", "words", "-p", 3)
    run("produce", "words", "-K", ":", "-H", "a=1", "-H", "b=", "-p", 2, input=b"k:v:w\n:x\n")
    headers = (("a", b"1"), ("b", b""))
    assert records(run, "words") == [(2, b"k", b"v:w", headers), (2, b"", b"x", headers)]


def test_empty_keys_and_values_may_be_null(run):
    run("produce", "words", "-c", "-K", "\\t", "-Z", input=b"k\t\n\tv\n")
    assert [(key, value) for _, key, value, _ in records(run, "words")] == [(b"k", None), (None, b"v")]


def test_any_bytes_may_be_the_delimiter(run):
    run("produce", "words", "-c", "-D", "\\0\\x01", input=b"a\nb\0\x01c\0d\0\x01\0\x01e")
    assert [value for _, _, value, _ in records(run, "words")] == [b"a\nb", b"c\0d", b"", b"e"]


def test_a_line_that_cannot_be_taken_is_named_and_those_before_it_are_written(run):
    run("topic", "create", "words")
    said = run.error("produce", "words", "-K", ":", input=b"a:1\nb:2\nno key\nc:3\n")
    assert "line 3" in said
    assert [value for _, _, value, _ in records(run, "words")] == [b"1", b"2"]
    for line in (
        b"{",
        b"[]",
        b'{"key": "a"}',
        b'{"value": 5}',
        b'{"value": "a", "vaule": 1}',
        b'{"value": {"base64": "!"}}',
    ):
        assert "line 1" in run.error("produce", "words", "--json", input=line)
    assert len(records(run, "words")) == 2


def test_what_is_written_before_a_bad_line_is_said_and_how_to_go_on(run, tmp_path):
    run("topic", "create", "words")
    lines = [b"a:1", b"b:2", b"no key", b"c:3"]
    said = run.error("produce", "words", "-K", ":", input=b"\n".join(lines))
    assert "line 3: the line has no key delimiter" in said
    assert "the 2 record(s) before it are written: correct it, and go on from line 3, as with `tail -n +3`" in said
    assert "line 1: the line has no key delimiter b':'; nothing was written" in run.error(
        "produce", "words", "-K", ":", input=b"x"
    )
    # Also where the producer refuses it.
    said = run.error("produce", "words", input=b"x\n" + b"y" * 2_000_000 + b"\n")
    assert "line 2: words-0: a record of 2000000 bytes does not fit max.request.size 1048576" in said
    assert "the 1 record(s) before it are written" in said
    said = run.error("produce", "words", "-D", "END", "--set", "num.io.threads=1", "-p", "7", input=b"aENDb")
    assert "record 1: " in said
    file = tmp_path / "lines.jsonl"
    file.write_text('{"value": "x"}\n\n{"value": 5}\n')
    said = run.error("import", "words", file)
    assert f"{file} line 3: " in said
    assert "the 1 record(s) before it are written" in said
    assert run("consume", "words", "-e") == "1\n2\nx\nx\n"


def test_json_lines_say_everything_of_a_record(run):
    lines = [
        {"value": "v", "key": "k", "timestamp": 5, "headers": [["a", "1"], ["a", None]], "partition": 1},
        {"value": None, "key": {"base64": "/w=="}, "headers": {"b": {"base64": "/w=="}}, "partition": 0},
    ]
    run("topic", "create", "words", "-p", 2)
    run("produce", "words", "--json", input="\n".join(map(json.dumps, lines)) + "\n\n")
    assert records(run, "words") == [
        (0, b"\xff", None, (("b", b"\xff"),)),
        (1, b"k", b"v", (("a", b"1"), ("a", None))),
    ]
    assert run("consume", "words", "-e", "-p", 1, "-f", "%T") == "5"


def test_an_unknown_topic_is_not_made(run):
    run("topic", "create", "words")
    assert "trains" in run.error("produce", "trains", input=b"x\n")
    assert "does not exist" in run.error("produce", "x", "--dir", run.directory / "deeper")


def test_records_are_compressed_and_synced_when_asked(run):
    run("produce", "words", "-c", "-z", "zstd", "--ack", "synced", input=b"x" * 1_000 + b"\n")
    (facts,) = run.json("segment", "dump", run.directory / "words-0")
    assert facts["codec"] == "zstd"


# --- consume -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (None, "0 2 4 "),
        ("beginning", "0 2 4 "),
        ("1", "2 4 "),
        ("-1", "4 "),
        ("-99", "0 2 4 "),
        ("end", ""),
        ("@1700000000001", "2 4 "),
        ("@2023-11-14T22:13:23Z", "4 "),
        ("@2023-11-14T23:13:24+01:00", "4 "),
        ("@2023-11-14 22:13:23", "4 "),
        ("@2100-01-01", ""),
    ],
)
def test_reading_begins_where_it_is_told(flights, begin, expected):
    words = [] if begin is None else ["-o", begin]
    out = flights("consume", "flights", "-e", "-p", 0, "-f", "%s ", *words)
    assert out.replace("value ", "") == expected


def test_times_are_read_and_printed_in_a_zone(flights):
    words = ("consume", "flights", "-e", "-p", 0, "-f", "%s %I,")
    assert flights(*words, "-o", "@2023-11-14 23:13:23", "--tz", "Europe/Berlin") == (
        "value 4 2023-11-14T23:13:24+01:00,"
    )
    # The zone counts also where it stands in front of the time that it is for, and none by default.
    assert flights(*words, "--tz", "+01:00", "-o", "@2023-11-14T23:13:23").startswith(
        "value 4 2023-11-14T23:13:24+"
    )
    assert flights(*words, "-o", "-1") == "value 4 2023-11-14T22:13:24+00:00,"
    part = ("-o", "@2023-11-15 07:13:21", "-u", "@2023-11-15 07:13:24", "--tz", "Asia/Tokyo")
    assert len(flights("export", "flights", *part).splitlines()) == 3
    assert flights("count", "flights", *part) == "3\n"
    assert flights("offsets", "set", "g", "flights:0=@2023-11-15 07:13:21", "--tz", "Asia/Tokyo") == "flights:0=1\n"
    (row,) = flights.json("offsets", "list", "g", "--tz", "Asia/Tokyo")
    assert row["committed"].endswith("+09:00")
    assert "expected a time zone" in flights.error(*words, "--tz", "Nowhere/Land", status=2)
    before = ("-b", "@2023-11-15 07:13:21", "--tz", "Asia/Tokyo", "-p", 0, "--yes")
    assert flights.json("topic", "trim", "flights", *before)[0]["log_start_offset"] == 1


def test_a_timestamp_that_is_no_date_is_printed_as_its_number():
    record = logstore.Record("t", 0, 5, 2**62, 0, None, None, [])
    assert formatter("%I")(record) == b"%d" % 2**62


@pytest.mark.parametrize(
    "words",
    [
        ("consume", "flights", "-e", "-o", "4"),
        ("consume", "flights", "-o", "4"),
        ("export", "flights", "-o", "4"),
        ("count", "flights", "-o", "4"),
        ("offsets", "set", "g", "flights:0=4"),
    ],
)
def test_an_offset_beyond_the_end_is_an_error_and_the_end_itself_is_none(flights, words):
    said = flights.error(*words)
    assert "flights-0: offset 4 is beyond the end, 3" in said
    assert flights.json("offsets", "list") == []
    assert flights("consume", "flights", "-e", "-o", "3") == ""


# --- count, head and tail ----------------------------------------------------------------------


def test_records_are_counted(flights):
    assert flights("count", "flights") == "6\n"
    assert flights("count", "flights", "-p", 1, "-o", "-2") == "2\n"
    assert flights("count", "flights", "-u", "@1700000004000") == "4\n"
    assert flights.json("count", "flights") == [
        {"topic": "flights", "partition": number, "records": 3} for number in (0, 1)
    ]
    assert "trains" in flights.error("count", "trains")


def test_the_oldest_and_the_newest_are_printed_in_order_of_their_times(flights):
    every = [f"value {number}" for number in range(6)]
    assert flights("head", "flights").splitlines() == every
    assert flights("head", "flights", "-n", 3).splitlines() == every[:3]
    assert flights("tail", "flights").splitlines() == every
    assert flights("tail", "flights", "-n", 3).splitlines() == every[3:]
    assert flights("tail", "flights", "-n", 0) == ""
    assert flights("tail", "flights", "-n", 1, "-p", 0, "-f", "%p %o") == "0 2"
    assert [json.loads(line)["offset"] for line in flights("head", "flights", "-n", 2, "--json").splitlines()] == [
        0,
        0,
    ]


def test_the_newest_are_found_behind_offsets_that_hold_no_record(run):
    with logstore.open(run.directory, environ={}) as store:
        topic = store.create_topic("t", cleanup_policy="compact", segment_bytes=300)
        for number in range(100):
            topic.append(b"kept %d" % number if number < 2 else b"x", key=b"%d" % min(number, 2))
        store.housekeep()
        assert topic.scan().count() < 10
    found = run("tail", "t", "-n", 3).splitlines()
    assert found == run("consume", "t", "-e").splitlines()[-3:]
    assert len(found) == 3


def test_what_comes_is_printed_behind_the_newest(flights, process):
    with logstore.open(flights.directory, environ={}) as store:
        with process("tail", "flights", "-n", 1, "-F") as following:
            assert following.stdout.readline() == b"value 5\n"
            store.topic("flights").append(b"new", partition=1)
            assert following.stdout.readline() == b"new\n"
            following.send_signal(signal.SIGINT)
            _told, said = following.communicate(timeout=300)
        assert (following.returncode, said.strip()) == (130, b"")


def test_so_many_are_printed_and_no_more(flights):
    assert len(flights("consume", "flights", "-c", 4).splitlines()) == 4
    assert len(flights("consume", "flights", "-e", "-c", 99).splitlines()) == 6


def test_a_format_is_like_kcats(flights):
    form = "%t-%p@%o|%k|%K|%s|%S|%T|%h|%%|\\x41\\t\\\\|%R\\n"
    out = flights.result("consume", "flights", "-p", 1, "-c", 1, "-f", form).stdout_bytes
    size = struct.pack(">i", 7)
    assert out == b"flights-1@0|AA|2|value 1|7|1700000001000|gate=B2|%|A\t\\|" + size + b"\n"


def test_a_null_has_no_bytes_and_size_minus_one():
    record = logstore.Record("t", 0, 5, 7, 0, None, None, [("a", None)])
    assert formatter("%k|%s|%K|%S|%h")(record) == b"||-1|-1|a=NULL"


def test_bytes_that_are_no_text_pass_unharmed(run):
    raw = bytes(range(256)) * 3
    run("produce", "words", "-c", "-D", "END", input=raw + b"END")
    assert run.result("consume", "words", "-e", "-f", "%s").stdout_bytes == raw


def test_a_group_goes_on_where_it_was(flights):
    first = flights("consume", "flights", "-e", "-g", "billing", "-c", 2)
    assert len(first.splitlines()) == 2
    again = flights("consume", "flights", "-e", "-g", "billing", "--no-commit")
    assert again == flights("consume", "flights", "-e", "-g", "billing")
    assert sorted((first + again).split()) == sorted(flights("consume", "flights", "-e").split())
    assert flights("consume", "flights", "-e", "-g", "billing") == ""
    assert len(flights("consume", "flights", "-e", "-g", "billing", "-o", "beginning").splitlines()) == 6


def test_a_group_commits_beside_the_process_that_writes(flights):
    with owner(flights.directory):
        first = flights("consume", "flights", "-e", "-g", "billing")
        assert len(first.splitlines()) == 6
        assert flights("consume", "flights", "-e", "-g", "billing") == ""
        flights("offsets", "set", "billing", "flights:0=0")
        assert len(flights("consume", "flights", "-e", "-g", "billing").splitlines()) == 3
        flights("offsets", "delete", "billing", "--yes")
    assert flights("consume", "flights", "-e", "-g", "billing") == first


def test_a_group_does_not_keep_the_store_from_a_writer(flights, process):
    with process("consume", "flights", "-g", "billing") as reading:
        assert reading.stdout.readline() == b"value 0\n"
        with logstore.open(flights.directory, environ={}) as store:
            store["flights"].append(b"later", partition=0)
        while reading.stdout.readline() != b"later\n":
            pass
        reading.send_signal(signal.SIGINT)


def test_aborted_records_are_left_out_when_asked(run):
    from logstore.log import Marker, ProducerStamp

    with logstore.open(run.directory, environ={}) as store:
        log = store.create_topic("t")[0]
        log.append([b"kept"])
        log.append([b"aborted"], producer=ProducerStamp(7, 0, 0, transactional=True))
        log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0)
    assert run("consume", "t", "-e") == "kept\naborted\n"
    assert run("consume", "t", "-e", "--isolation", "read_committed") == "kept\n"
    assert [line["value"] for line in map(json.loads, run("export", "t").splitlines())] == ["kept"]


# --- export and import -------------------------------------------------------------------------


def test_what_was_exported_is_imported_as_it_was(flights, tmp_path):
    lines = flights("export", "flights")
    assert json.loads(lines.splitlines()[0]) == {
        "topic": "flights",
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_000,
        "key": "AA",
        "value": "value 0",
        "headers": [["gate", "B2"]],
    }
    flights("topic", "create", "copy", "-p", 2)
    flights("import", "copy", "--keep-partitions", input=lines)
    assert flights("export", "copy") == lines.replace('"flights"', '"copy"')
    file = tmp_path / "lines.jsonl"
    file.write_text(lines)
    flights("import", "second", file, "--create")
    assert sorted(values(flights("export", "second"))) == sorted(values(lines))


def values(lines):
    return [(line["key"], line["value"], line["timestamp"]) for line in map(json.loads, lines.splitlines())]


def test_a_part_is_exported(flights):
    assert len(flights("export", "flights", "-p", 0, "-o", 1, "-u", 2).splitlines()) == 1
    assert flights("export", "flights", "-o", "end") == ""
    part = flights("export", "flights", "-o", "@1700000001000", "-u", "@1700000004000")
    assert [line["value"] for line in map(json.loads, part.splitlines())] == ["value 2", "value 1", "value 3"]


def test_a_directory_is_imported_with_offsets_and_batches_as_they_are(run, tmp_path):
    source = tmp_path / "old" / "flights-1"
    with Log.open(source) as log:
        log.append([b"gone"])
        for number in range(5):
            log.append([(b"k", b"%d" % number, 1_000 + number, [("h", b"x")])] * 3)
        log.delete_before(4)
    before = tree(source.parent)
    run("topic", "create", "flights", "-p", 2)
    run("import", "flights", source, "--keep-offsets")
    assert tree(source.parent) == before
    with Log.open(source, read_only=True) as old, Log.open(run.directory / "flights-1", read_only=True) as new:
        assert (new.log_start_offset, new.log_end_offset) == (old.log_start_offset, old.log_end_offset)
        for batches in zip(old.scan(4, 16).chunks(), new.scan(4, 16).chunks(), strict=True):
            theirs, ours = ([bytes(batch)[16:] for batch in chunk.batches()] for chunk in batches)
            assert ours == theirs
    assert "end offset is 16" in run.error("import", "flights", source, "--keep-offsets")
    run("import", "flights", source)
    assert len(records(run, "flights")) == 24


def test_a_root_is_imported_topic_by_topic(flights, tmp_path):
    other = type(flights)(tmp_path / "other")
    other("import", "flights", flights.directory, "--create", "--keep-partitions", "--new-timestamps")
    assert sorted(records(other, "flights")) == sorted(records(flights, "flights"))
    assert "1700000000000" not in other("export", "flights")
    assert "neither" in other.error("import", "trains", flights.directory)


@pytest.mark.parametrize("word", ["", "12x", "-2y", "2026-13-01", "١٢"])
def test_what_is_no_time_is_refused(word):
    with pytest.raises(ValueError, match="expected"):
        time_ms(word, 0)


def test_what_is_damaged_is_passed_over_where_that_is_asked_for_and_named(flights) -> None:
    path = flights.directory / "flights-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1  # in the first of three batches
    path.write_bytes(bytes(data))
    assert "read on from offset 1" in flights.error("export", "flights", "-p", "0")
    assert "read on from offset 1" in flights.error("consume", "flights", "-p", "0", "-e")
    for words in (("export", "flights", "-p", "0"), ("consume", "flights", "-p", "0", "-e", "--json")):
        found = flights.result(*words, "--skip-damaged")
        assert found.exit_code == 1, found.output
        assert [json.loads(line)["offset"] for line in found.stdout.splitlines()] == [1, 2]
        assert "flights-0: offsets 0 to 0 are left out: CRC-32C" in found.stderr
        flights(*words[:2], "-p", "1", *words[4:], "--skip-damaged")
