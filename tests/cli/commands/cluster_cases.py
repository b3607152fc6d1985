"""What commands with ``--bootstrap`` must do on every cluster: brokers of the tests, or `logstore serve`."""

from __future__ import annotations

import json

import logstore
from tests.cli.conftest import Line


def commands_on(run: Line, bootstrap: str) -> Line:
    """Commands on a cluster with topic ``flights`` of two partitions, three records in each."""
    run._runner.env.update({"LOGSTORE_DIR": None, "LOGSTORE_BOOTSTRAP": bootstrap})
    with logstore.connect(bootstrap) as store:
        topic = store.create_topic("flights", partitions=2)
        for number in range(2):
            topic.append_many([(b"k%d" % each, b"%d-%d" % (number, each)) for each in range(3)], partition=number)
    return run


def _topics(there: Line) -> list[str]:
    return [each["topic"] for each in there.json("topic", "list")]


class ClusterCommandCases:
    """Cases over the fixtures ``brokers``, which have a ``bootstrap``, and ``there``, which is of `commands_on`."""

    def test_topics_of_a_cluster(self, there):
        assert there.json("topic", "list") == [
            {"topic": "flights", "partitions": 2, "id": there.json("topic", "list")[0]["id"]}
        ]
        there("topic", "create", "new", "-p", "3", "-c", "retention.ms=7d")
        (described,) = there.json("topic", "describe", "new")
        assert described["settings"] == {"retention.ms": "604800000"}
        assert [each["high_watermark"] for each in described["partitions"]] == [0, 0, 0]
        assert (
            there("topic", "alter", "new", "retention.ms=1d", "--reset", "cleanup.policy")
            == "retention.ms=86400000\n"
        )
        there("topic", "add-partitions", "new", "4")
        assert there.json("topic", "trim", "flights", "--before", "2", "--yes") == [
            {"partition": 0, "log_start_offset": 2},
            {"partition": 1, "log_start_offset": 2},
        ]
        there("topic", "delete", "new", "--yes")
        assert _topics(there) == ["flights"]

    def test_records_of_a_cluster_are_produced_consumed_and_exported(self, there):
        there("produce", "flights", "-p", "1", input="a\nb\n")
        printed = there("consume", "flights", "-e", "-o", "beginning", "-f", "%p %o %s\\n").splitlines()
        assert sorted(printed) == [
            "0 0 0-0",
            "0 1 0-1",
            "0 2 0-2",
            "1 0 1-0",
            "1 1 1-1",
            "1 2 1-2",
            "1 3 a",
            "1 4 b",
        ]
        assert there("consume", "flights", "-e", "-p", "1", "-o", "-1") == "b\n"
        lines = [json.loads(line) for line in there("export", "flights", "-p", "0").splitlines()]
        assert [(line["key"], line["value"]) for line in lines] == [("k0", "0-0"), ("k1", "0-1"), ("k2", "0-2")]
        there("import", "again", "--create", input="".join(json.dumps(line) + "\n" for line in lines))
        assert there("consume", "again", "-e", "-f", "%k=%s ") == "k0=0-0 k1=0-1 k2=0-2 "
        assert there("head", "flights", "-p", "0", "-n", "1") == "0-0\n"
        assert there("tail", "flights", "-p", "1", "-n", "1") == "b\n"

    def test_offsets_and_lag_of_a_cluster(self, there):
        there("consume", "flights", "-e", "-c", "2", "-p", "0", "-g", "report")
        assert [(each["partition"], each["offset"]) for each in there.json("offsets", "list", "report")] == [(0, 2)]
        assert [each["records"] for each in there.json("offsets", "lag", "report")] == [1]
        there("offsets", "set", "report", "flights:1=end")
        assert [each["offset"] for each in there.json("offsets", "list", "report")] == [2, 3]
        there("offsets", "delete", "report", "flights:1")
        assert [each["partition"] for each in there.json("offsets", "list")] == [0]

    def test_a_store_or_a_cluster_and_never_both(self, there, brokers, tmp_path):
        said = there.error("topic", "list", "--dir", tmp_path, "--bootstrap", brokers.bootstrap, status=2)
        assert "--dir and --bootstrap exclude each other; give one of them" in said
        # The command line wins over the environment.
        with logstore.open(tmp_path / "store", environ={}) as store:
            store.create_topic("of-the-store")
        assert "of-the-store" in there("topic", "list", "--dir", tmp_path / "store")
        there._runner.env.update({"LOGSTORE_DIR": str(tmp_path / "store"), "LOGSTORE_BOOTSTRAP": None})
        assert "flights" in there("topic", "list", "--bootstrap", brokers.bootstrap)
        assert "of-the-store" in there("topic", "list")

    def test_what_is_of_files_is_refused(self, there, tmp_path):
        for words in (("consume", "flights", "--skip-damaged"), ("export", "flights", "--skip-damaged")):
            assert "reads the files of a store" in there.error(*words, status=2)
        assert "--drop-keyless is of a store" in there.error(
            "topic", "alter", "flights", "a=b", "--drop-keyless", status=2
        )
        (tmp_path / "flights-0").mkdir()
        assert "is imported into a store" in there.error("import", "flights", tmp_path / "flights-0", status=2)

    def test_a_cluster_is_measured_in_a_topic_that_is_made_and_deleted(self, there):
        rows = there.json("bench", "-n", "2000", "--syncs", "3")
        assert [(row["what"], row["records"]) for row in rows] == [
            ("append in batches of 1,000", 2000),
            ("send by a producer", 2000),
            ("consume", 4000),
            ("count", 4000),
            ("append one by one, each acknowledged", 3),
            ("send one by one, each consumed", 3),
        ]
        assert all(row["seconds"] > 0 for row in rows)
        assert [row["p50_ms"] is not None for row in rows] == [False] * 4 + [True] * 2
        assert rows[-1]["p50_ms"] <= rows[-1]["p99_ms"]
        assert _topics(there) == ["flights"]
        assert "p99_ms" in there("bench", "-n", "1000", "--syncs", "1", "-t", "mine")
        assert _topics(there) == ["flights"]

    def test_no_topic_of_the_user_is_measured_in(self, there):
        said = there.error("bench", "--topic", "flights", status=2)
        assert (
            "--topic flights: the topic exists, and bench would fill and delete it; give a name that is new" in said
        )
        (flights,) = there.json("topic", "describe", "flights")
        assert [each["high_watermark"] for each in flights["partitions"]] == [3, 3]
        there._runner.env["LOGSTORE_BOOTSTRAP"] = None
        assert "--topic is for a cluster" in there.error("bench", "--topic", "flights", status=2)
