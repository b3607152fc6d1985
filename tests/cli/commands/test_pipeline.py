"""``logstore pipeline``: what it lists, takes and refuses. None of it needs Spark; tests/spark has the runs."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest

import logstore
from logstore.errors import DirectoryLockedError, SparkNotReadyError, UnknownSettingError, UnknownTopicError
from logstore.protocol.generated.messages import CreateTopicsRequest
from logstore.spark import jvm
from logstore.spark.pipelines import get, names, parameters_of, topics
from logstore.spark.pipelines.files import FilesParameters
from tests.remote.fake_cluster import FakeCluster


def test_every_pipeline_is_listed_with_what_it_does(run):
    rows = run.json("pipeline", "list")
    assert [row["pipeline"] for row in rows] == names()
    assert all(row["summary"].endswith(".") for row in rows)


@pytest.mark.parametrize("name", names())
def test_a_description_has_every_parameter_with_help_and_says_what_to_turn_for_scale(run, name):
    rows = {row["parameter"]: row for row in run.json("pipeline", "describe", name)}
    found = parameters_of(get(name).parameters)
    assert len(rows) == len(found)
    assert all(row["help"].endswith(".") for row in rows.values()), rows
    assert any(row["scale"] for row in rows.values())
    text = run("pipeline", "describe", name)
    assert len(text) > 500
    assert "\n*" in text
    assert "scale" in text.lower()


@pytest.mark.parametrize("name", names())
def test_every_parameter_is_an_option(run, name):
    text = run("pipeline", "run", name, "--help")
    for each in parameters_of(get(name).parameters):
        assert ("--dir" if each.name == "path" else f"--{each.name.replace('_', '-')}") in text
    assert "--master" in text


def test_an_unknown_pipeline_is_refused_with_those_there_are(run):
    assert "No such command 'fils'" in run.error("pipeline", "run", "fils", status=2)
    with pytest.raises(UnknownSettingError, match="no 'fils', perhaps files; there are "):
        get("fils")


GIVEN = ("--source", "in", "--topic", "t", "--checkpoint", "c")


def test_wrong_parameters_end_it_before_spark_begins(run, monkeypatch):
    monkeypatch.setattr(jvm, "prepare", lambda: pytest.fail("asked for Spark"))
    assert "Missing option '--topic'" in run.error("pipeline", "run", "files", "--source", "x", status=2)
    said = run.error("pipeline", "run", "files", *GIVEN, "--format", "avro", status=2)
    assert said == "error: 1 setting(s) refused: format: expected csv or json or parquet or text, found 'avro'\n"


def test_without_spark_one_line_says_what_to_install(run, monkeypatch):
    def missing():
        raise SparkNotReadyError("PySpark is missing: pip install 'logstore[spark]'")

    monkeypatch.setattr(jvm, "prepare", missing)
    said = run.error("pipeline", "run", "files", *GIVEN)
    assert said == "error: PySpark is missing: pip install 'logstore[spark]'\n"
    assert not run.directory.exists()


def test_a_broker_on_the_command_line_wins_over_the_directory_of_the_environment(run, monkeypatch):
    def missing():
        raise SparkNotReadyError("reached")

    monkeypatch.setattr(jvm, "prepare", missing)
    assert "reached" in run.error("pipeline", "run", "files", *GIVEN, "--bootstrap", "localhost:1")
    said = run.error("pipeline", "run", "files", *GIVEN, "--bootstrap", "localhost:1", "--dir", "x", status=2)
    assert "found both" in said


def told(path):
    return FilesParameters(path=str(path), checkpoint="c", source="s", topic="t", partitions=3)


def test_missing_topics_are_made_and_those_there_are_stay(tmp_path):
    topics.ensure_topics(told(tmp_path / "data"), "a")
    with logstore.open(tmp_path / "data", environ={}) as store:
        store.create_topic("b", 7)
    topics.ensure_topics(told(tmp_path / "data"), "a", "b", "c", settings={"cleanup.policy": "compact"})
    with logstore.open(tmp_path / "data", read_only=True, environ={}) as store:
        assert {name: len(store[name]) for name in store.topics()} == {"a": 3, "b": 7, "c": 3}
        assert store.describe_topic("c").settings == {"cleanup.policy": "compact"}


def test_missing_topics_of_a_cluster_are_made_and_those_there_are_stay(tmp_path):
    with FakeCluster(2) as cluster:
        place = dataclasses.replace(told(tmp_path / "data"), path="", bootstrap=cluster.bootstrap)
        cluster.topic("b", 7)
        topics.ensure_topics(place, "a")
        topics.ensure_topics(place, "a", "b", "c", settings={"cleanup.policy": "compact"}, partitions=1)
        assert {name: len(each.partitions) for name, each in cluster.topics.items()} == {"a": 3, "b": 7, "c": 1}
        assert cluster.topics["c"].settings == {"cleanup.policy": "compact"}
        # A user without the right to create topics may still use those there are.
        assert len(cluster.requests(CreateTopicsRequest)) == 2


def test_two_that_begin_at_once_both_find_their_topics(tmp_path):
    code = (
        "import sys; from tests.cli.commands.test_pipeline import told\n"
        "from logstore.spark.pipelines import topics\n"
        "sys.stdin.readline()\n"
        "for n in range(20): topics.ensure_topics(told(sys.argv[1]), *(f'{name}{n}' for name in sys.argv[2:]))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", *sys.path])}
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "data"), *names],
            stdin=subprocess.PIPE,
            env=environ,
            text=True,
        )
        for names in (("a", "b"), ("b", "c"))
    ]
    for each in begun:
        each.stdin.write("\n")
        each.stdin.close()
    assert [each.wait(300) for each in begun] == [0, 0]
    with logstore.open(tmp_path / "data", read_only=True, environ={}) as store:
        assert len(store.topics()) == 60


def test_beside_the_process_that_writes_the_store_topics_have_to_be_there(tmp_path):
    with logstore.open(tmp_path / "data", environ={}) as store:
        store.create_topic("a")
        with pytest.raises(DirectoryLockedError), logstore.open(tmp_path / "data", environ={}):
            pass
        topics.ensure_topics(told(tmp_path / "data"), "a")
        with pytest.raises(UnknownTopicError, match="no topic b, c; create them there with"):
            topics.ensure_topics(told(tmp_path / "data"), "a", "b", "c")


def test_lists_are_given_with_commas(run, monkeypatch):
    seen = []
    monkeypatch.setattr(jvm, "prepare", lambda: (_ for _ in ()).throw(SparkNotReadyError("no")))
    monkeypatch.setattr(
        "logstore.spark.pipelines.files.FilesParameters.__post_init__", lambda self: seen.append(self)
    )
    run.error("pipeline", "run", "files", *GIVEN, "--columns", "a, b,c", "--continuous", "--no-strict")
    (found,) = seen
    assert (found.columns, found.continuous, found.strict) == (("a", "b", "c"), True, False)
    assert json.dumps(found.files_per_trigger) == "0"
