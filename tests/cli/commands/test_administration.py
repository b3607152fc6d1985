"""Topics, offsets, settings, the doctor: what each says, and what it leaves behind."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest

import logstore
from logstore.client.backend.findings import Level
from logstore.config import kafka_keys
from logstore.config.store import DEFAULTS, StoreConfig
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import holder_of
from logstore.store.admin.diagnosis import diagnose
from logstore.testing import FaultyFiles
from tests.cli.conftest import Line
from tests.kit.logs import crashed_copy, tree
from tests.log.tools.test_verify import flip
from tests.store.requests.owners import owner

# --- topics ------------------------------------------------------------------------------------


def test_a_topic_is_created_described_altered_grown_and_deleted(run):
    run("topic", "create", "flights", "-p", 2, "-c", "retention.ms=5", "-c", "log.cleanup.policy=compact")
    assert run.json("topic", "list")[0] | {"id": ""} == {"topic": "flights", "partitions": 2, "id": ""}
    (described,) = run.json("topic", "describe", "flights")
    assert described["settings"] == {"retention.ms": "5", "cleanup.policy": "compact"}
    assert described["partitions"][1] == {
        "partition": 1,
        "log_start_offset": 0,
        "high_watermark": 0,
        "log_end_offset": 0,
        "size": 0,
        "segment_count": 0,
    }
    assert run("topic", "alter", "flights", "segment.bytes=4096", "--reset", "retention.ms") == (
        "cleanup.policy=compact\nsegment.bytes=4096\n"
    )
    run("topic", "add-partitions", "flights", 3)
    assert run.json("topic", "list")[0]["partitions"] == 3
    run("topic", "create", "flights", "--if-not-exists")
    run("topic", "delete", "flights", "--yes")
    assert run("topic", "list") == ""
    assert not list(run.directory.glob("flights-*"))


def test_settings_of_a_topic_are_given_as_kafkas_tools_take_them(run, tmp_path, monkeypatch):
    words = ("-c", "segment.bytes=1MiB", "--set", "retention.ms=7d", "--config", "cleanup.policy=compact")
    run("topic", "create", "flights", *words, "--set", "num.partitions=3", "--config", "flush.messages=5")
    (described,) = run.json("topic", "describe", "flights")
    assert described["settings"] == {
        "retention.ms": "604800000",
        "cleanup.policy": "compact",
        "flush.messages": "5",
        "segment.bytes": "1048576",
    }
    assert len(described["partitions"]) == 3
    assert "retention.ms=86400000\n" in run("topic", "alter", "flights", "--set", "retention.ms=1d")
    assert "flush.messages=6\n" in run("topic", "alter", "flights", "--config", "flush.messages=6")
    file = tmp_path / "a=b.toml"
    file.write_text("num.partitions = 2\n")
    run("topic", "create", "trains", "--config", file, "--config", "retention.ms=5")
    (described,) = run.json("topic", "describe", "trains")
    assert (described["settings"]["retention.ms"], len(described["partitions"])) == ("5", 2)
    assert "retenton.ms: unknown; the nearest name is retention.ms" in run.error(
        "topic", "create", "buses", "--set", "retenton.ms=5", status=2
    )
    assert "one file" in run.error("topic", "create", "buses", "--config", "a", "--config", "b", status=2)
    assert "buses" not in run("topic", "list")


def test_the_oldest_records_are_trimmed(flights):
    assert flights.json("topic", "trim", "flights", "-b", 2, "-p", 1, "--yes") == [
        {"partition": 1, "log_start_offset": 2}
    ]
    assert flights("consume", "flights", "-e", "-p", 1) == "value 5\n"
    flights("topic", "trim", "flights", "-b", "end", "--yes")
    assert flights("consume", "flights", "-e") == ""


# --- offsets -----------------------------------------------------------------------------------


def test_offsets_are_set_listed_measured_and_forgotten(flights):
    assert flights("offsets", "list") == ""
    assert flights("offsets", "set", "billing", "flights:0=1", "flights:1=end") == "flights:0=1\nflights:1=3\n"
    rows = flights.json("offsets", "list", "billing")
    assert [(row["group"], row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("billing", "flights", 0, 1),
        ("billing", "flights", 1, 3),
    ]
    lags = flights.json("offsets", "lag", "billing")
    assert [(row["partition"], row["records"], row["lost"]) for row in lags] == [(0, 2, 0), (1, 0, 0)]
    assert lags[0]["seconds"] > 1_000_000
    flights("offsets", "delete", "billing", "flights:0")
    assert [row["partition"] for row in flights.json("offsets", "list")] == [1]
    flights("offsets", "delete", "billing", "--yes")
    assert flights.json("offsets", "list") == []


def test_offsets_of_unknown_places_are_refused_all_together(flights):
    assert "trains" in flights.error("offsets", "set", "billing", "flights:0=1", "trains:0=1")
    assert flights.json("offsets", "list") == []


@pytest.mark.parametrize(
    "words", [("offsets", "lag", "biling"), ("offsets", "list", "biling"), ("config", "check", "-g", "biling")]
)
def test_a_group_that_has_committed_nothing_is_an_error_and_those_that_have_are_named(flights, words):
    flights("offsets", "set", "billing", "flights:0=1")
    said = flights.error(*words)
    assert "group 'biling' has committed no offsets here (groups that have: billing)" in said
    assert said.count("\n") == 1


# --- settings ----------------------------------------------------------------------------------


@pytest.mark.row("K1")
def test_settings_are_shown_with_their_source(flights, tmp_path):
    file = tmp_path / "store.toml"
    file.write_text("retention.ms = 5\n")
    flights("topic", "alter", "flights", "flush.messages=7")
    rows = {
        row["key"]: row
        for row in flights.json("config", "show", "-t", "flights", "--config", file, "--set", "segment.ms=9")
    }
    assert rows["retention.ms"] == {
        "key": "retention.ms",
        "value": 5,
        "source": f"file {file} (retention.ms)",
        "default": -1,
    }
    assert rows["segment.ms"]["source"] == "argument (segment.ms)"
    assert (rows["flush.messages"]["source"], rows["flush.messages"]["value"]) == ("topic flights", 7)
    assert rows["flush.ms"]["source"] == "default"
    every = flights.json("config", "show")
    assert [row["key"] for row in every] == [key for key, _ in StoreConfig().items()]
    assert flights("config", "show", "--changed") == ""


@pytest.mark.row("K1")
def test_every_key_is_explained(run):
    known = [
        *DEFAULTS,
        *(key for scope in ("topic", "broker", "producer", "consumer") for key in kafka_keys.keys(scope)),
    ]
    known += ["log.retention.hours", "log.segment.bytes", *kafka_keys.REMOVED]
    entries = run.json("config", "explain", *sorted(set(known)))
    assert {entry["class"] for entry in entries} == {"honoured", "without effect", "refused", "removed"}
    assert all(entry["meaning"].endswith(".") for entry in entries)
    (hours,) = run.json("config", "explain", "log.retention.hours")
    assert (hours["key"], "log.retention.minutes" in hours["also"]) == ("retention.ms", True)
    said = run.error("config", "explain", "retention.ms", "retenton.ms", "zzz", status=2)
    assert "retenton.ms: unknown; the nearest name is retention.ms" in said
    assert "zzz: unknown" in said


@pytest.mark.row("O7")
def test_dangerous_settings_are_listed_with_their_rows(flights):
    flights("topic", "alter", "flights", "retention.ms=1000")
    flights("offsets", "set", "billing", "flights:0=0")
    out = flights("config", "check", "--producer", "acks=0", "--producer", "linger.ms=9", status=1)
    lines = out.splitlines()
    assert lines[0].startswith("danger: ")
    assert {"acks-none", "retention-below-lag", "one-replica", "no-flush", "segment-outlives-retention"} <= {
        row["name"] for row in flights.json("config", "check", "--producer", "acks=0", status=1)
    }
    assert "[retention.ms; R6]" in out
    assert "retention-below-lag" in {
        row["name"] for row in flights.json("config", "check", "-g", "billing", status=1)
    }


def test_settings_are_checked_without_a_store(run, monkeypatch):
    monkeypatch.setattr(run, "_runner", type(run._runner)(env={"LOGSTORE_DIR": None}))
    assert "one-replica" in {row["name"] for row in run.json("config", "check")}
    assert "offsets-forgotten-first" in run("config", "check", "--set", "retention.ms=-1", "--json")


@pytest.mark.row("K1")
@pytest.mark.parametrize("form", ["toml", "properties"])
def test_a_file_is_converted_and_means_the_same(run, tmp_path, form):
    file = tmp_path / "server.properties"
    file.write_text(
        "log.retention.hours=2\nlog.retention.ms=7\nnum.io.threads=8\nlog.dirs=/a\\\\b\nlog.preallocate=true\n"
    )
    result = run.result("config", "convert", file, "--to", form)
    assert result.exit_code == 0
    assert "num.io.threads" in result.stderr
    assert "log.retention.hours" not in result.stderr
    again = tmp_path / f"again.{form}"
    again.write_text(result.stdout)
    assert StoreConfig.load(again) == StoreConfig.load(file)
    assert StoreConfig.load(again).log.retention_ms == 7


@pytest.mark.parametrize("form", ["toml", "properties", "environment"])
def test_kafkas_retention_of_a_file_that_does_not_say_it_is_kept_in_every_form(run, tmp_path, form):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\n")
    result = run.result("config", "convert", file, "--to", form)
    if form == "environment":
        again = StoreConfig.from_environment(dict(line.split("=", 1) for line in result.stdout.splitlines()))
    else:
        (written := tmp_path / f"again.{form}").write_text(result.stdout)
        again = StoreConfig.load(written)
    assert again.log.retention_ms == StoreConfig.load(file).log.retention_ms == 604_800_000
    with logstore.open(tmp_path / "store", again, environ={}) as store:
        assert store.create_topic("made").config.retention_ms == 604_800_000
    # In the other forms it is said that it holds for topics that are there, too.
    assert ("also those that are there" in result.stderr) is (form != "properties")
    assert ("# Also of topics that are there" in result.stdout) is (form == "toml")


def test_a_file_is_converted_to_variables(run, tmp_path):
    file = tmp_path / "store.toml"
    file.write_text('"logstore.ack" = "synced"\nretention.ms = 5\n')
    out = run("config", "convert", file, "--to", "environment")
    variables = dict(line.split("=", 1) for line in out.splitlines())
    assert variables == {"LOGSTORE_ACK": "synced", "LOGSTORE_RETENTION_MS": "5"}
    assert StoreConfig.from_environment(variables) == StoreConfig.load(file)


# --- doctor ------------------------------------------------------------------------------------


def names(run, *words, status=0):
    return {row["name"] for row in run.json("doctor", *words, status=status)}


def test_a_healthy_store_is_called_so_and_nothing_is_touched(flights):
    before = tree(flights.directory)
    assert flights("doctor", "--deep") == ""
    assert names(flights, "--all") == {"free", "size"}
    assert tree(flights.directory) == before


def test_damage_is_a_problem_with_its_place(flights):
    path = flights.directory / "flights-1" / "00000000000000000000.log"
    flip(path, 70)
    assert names(flights, status=1) == {"damage"}
    out = flights("doctor", status=1)
    assert f"{path}, position 0, offset 0" in out
    assert "segment repair" in out


def test_strange_and_missing_directories_are_problems(flights):
    (flights.directory / "pictures").mkdir()
    (flights.directory / "flights-0" / "notes.txt").write_text("x")
    (flights.directory / "trains-0").mkdir()
    shutil.rmtree(flights.directory / "flights-1")
    found = names(flights, status=1)
    assert {"foreign-directory", "foreign-file", "partition-missing", "partition-unknown"} <= found


def test_a_damaged_catalogue_is_a_problem(flights):
    flip(flights.directory / "logstore.topics", 30)
    assert "catalogue-damaged" in names(flights, status=1)


def test_a_catalogue_that_is_missing_is_a_problem_and_made_again(flights):
    (flights.directory / "logstore.topics").unlink()
    assert "catalogue-missing" in names(flights, status=1)
    assert f"logstore rebuild --dir {flights.directory}" in flights.error("topic", "list")
    (made,) = flights.json("rebuild")
    assert (made["topic"], made["partitions"], made["missing"], made["damaged"]) == ("flights", 2, [], [])
    assert "catalogue-missing" not in names(flights)
    assert len(flights("consume", "flights", "-e").splitlines()) == 6
    assert "it is whole" in flights.error("rebuild")
    shutil.rmtree(flights.directory / "flights-0")
    (flights.directory / "logstore.topics").write_bytes(b"")
    assert "flights-0: its directory is missing" in flights.error("rebuild")
    assert "flights-0" in flights.error("consume", "flights", "-e")


def test_a_crash_is_told_and_what_comes_of_it(tmp_path, flights):
    with logstore.open(flights.directory, environ={}) as store:
        log = store.topic("flights")[0]
        log.append([b"x"])
        copy = crashed_copy(log, tmp_path / "crashed")
    found = {finding.name: finding for finding in diagnose(copy)}
    assert found["unclean"].level is Level.INFO
    assert "next open" in found["unclean"].advice


def test_space_is_compared_with_reserve_and_budget(flights):
    assert "below-reserve" in names(flights, "--set", "logstore.disk.reserve=100%", status=1)
    assert "above-budget" in names(flights, "--set", "logstore.disk.budget=10")


def test_a_directory_that_is_not_there_is_a_problem(run):
    assert names(run, status=1) == {"no-directory"}
    said = run("doctor", status=1)
    assert said == f"problem: {run.directory}: the directory does not exist; check the path\n"


def test_a_directory_that_cannot_be_read_is_not_called_missing(flights):
    table = FaultyFiles()
    table.fail("listdir", 1, errno=errno.EMFILE, times=-1)
    (found,) = diagnose(flights.directory, table=table)
    assert (found.name, found.level) == ("unreadable", Level.PROBLEM)
    assert "raise the limit on open files" in found.what
    assert "Errno" not in str(found)


def test_a_directory_may_be_named_by_an_argument(flights, tmp_path, monkeypatch):
    monkeypatch.setattr(flights, "_runner", type(flights._runner)(env={"LOGSTORE_DIR": str(tmp_path / "other")}))
    for command in ("doctor", "housekeep"):
        flights(command, flights.directory)
    assert "it is whole" in flights.error("rebuild", flights.directory)
    assert "store already" in flights.error("adopt", flights.directory, "--yes")
    flights("doctor", flights.directory, "--dir", flights.directory)
    assert "give one of them" in flights.error("doctor", flights.directory, "--dir", tmp_path, status=2)


def test_the_holder_of_a_root_is_asked_without_taking_its_lock(tmp_path, process):
    root = Directory(tmp_path / "data")
    assert holder_of(root) is None
    with logstore.open(tmp_path / "data", environ={}):
        here = holder_of(root)
        assert here is not None
        assert f"pid={here.pid}" in here.told
    assert holder_of(root) is None
    with process("produce", "words", "--create") as other:
        while holder_of(root) is None and other.poll() is None:
            pass
        holder = holder_of(root)
        other.communicate(b"x\n", timeout=300)
    assert holder is not None
    assert holder.pid == other.pid


# --- bench -------------------------------------------------------------------------------------


def test_bench_measures_and_leaves_nothing(run, tmp_path):
    rows = run.json("bench", tmp_path, "-n", 2_000, "--syncs", 2)
    assert {"consume", "count", "flush"} <= {row["what"] for row in rows}
    assert list(tmp_path.iterdir()) == []
    assert json.dumps(rows)


# --- the directory as a whole ------------------------------------------------------------------

KAFKAS = Path(__file__).resolve().parents[2] / "fixtures" / "kafka-4.3.1"


@pytest.fixture
def kafkas(tmp_path):
    """Commands on a copy of a directory that Kafka wrote."""
    return Line(shutil.copytree(KAFKAS, tmp_path / "kafkas"))


def test_a_directory_of_kafkas_is_read_and_checked_as_it_is(kafkas):
    before = tree(kafkas.directory)
    assert "records" in kafkas("topic", "list")
    assert {"kafkas"} <= names(kafkas, "--all")
    assert names(kafkas) == set()
    kafkas("segment", "verify", "--deep", "--compacted")
    assert len(kafkas("consume", "records", "-e", "-c", 2).splitlines()) >= 2
    assert "Kafka wrote" in kafkas.error("produce", "records", input=b"x\n")
    assert tree(kafkas.directory) == before


def test_a_directory_of_kafkas_is_taken_over_and_handed_back(kafkas):
    assert "give --yes" in kafkas.error("adopt", status=2)
    rows = kafkas.json("adopt", "--yes")
    assert "records" in {row["topic"] for row in rows}
    kafkas("produce", "records", input=b"ours\n")
    assert "store already" in kafkas.error("adopt", "--yes")
    assert all(row["known"] for row in kafkas.json("hand-back"))
    assert "Kafka wrote" in kafkas.error("produce", "records", input=b"x\n")
    assert kafkas("consume", "records", "-o", -1, "-e") == "ours\n"
    kafkas("adopt", "--yes")
    kafkas("topic", "create", "new")
    assert "does not know new" in kafkas.error("hand-back")
    rows = kafkas.json("hand-back", "--leave-stray")
    assert [row["topic"] for row in rows if not row["known"]] == ["new"]


def test_a_snapshot_is_a_store(flights, tmp_path):
    (row,) = flights.json("snapshot", tmp_path / "copy", "--verify")
    assert (row["topics"], row["partitions"]) == (1, 2)
    copy = Line(tmp_path / "copy")
    assert copy("export", "flights") == flights("export", "flights")
    assert str(tmp_path / "copy") in flights.error("snapshot", tmp_path / "copy")


def test_a_snapshot_is_taken_by_the_process_that_writes(flights, tmp_path):
    with owner(flights.directory):
        (row,) = flights.json("snapshot", tmp_path / "copy", "--verify")
        assert row["partitions"] == 2
        assert str(tmp_path / "copy") in flights.error("snapshot", tmp_path / "copy")
    assert Line(tmp_path / "copy")("export", "flights") == flights("export", "flights")


def test_housekeeping_is_done_on_demand(flights):
    flights("topic", "alter", "flights", "retention.ms=1")
    flights("housekeep")
    assert flights("export", "flights") == ""


def test_findings_that_are_the_same_stand_on_one_line(flights):
    flights("topic", "create", "trains")
    (line,) = [line for line in flights("config", "check").splitlines() if "power cut" in line]
    assert line.startswith("warning: topic flights, topic trains: ")
    assert len([row for row in flights.json("config", "check") if row["name"] == "no-flush"]) == 2
