"""A secured Kafka from Spark: each protocol and mechanism, with the options that `format("kafka")` has for them.

Source and sink are ours; Spark's own connector is given the same options, and judges what they have done. Run by
`make interop`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import logstore
from logstore.errors import InvalidSettingError
from logstore.spark.pipelines import files
from tests.interop.secured import LISTENERS, MECHANISMS, USERS, Secured, secured
from tests.spark.pipelines.test_files import parameters as files_of
from tests.spark.pipelines.test_files import write_csv
from tests.spark.test_kafka import fingerprint, records, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.row("D5"), pytest.mark.timeout(600)]

WAYS = [("SSL", "")]
WAYS += [(listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS]
RECORDS = 2_000
WRONG = "wr0ng-secret"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with rights: alice has all topics and one group, bob may write ``own`` and see ``guarded``.

    Kafka gives a producer id only to users that may write some topic, or do IdempotentWrite.
    """
    made = secured(tmp_path_factory.mktemp("secured") / "cluster", racks=["alone"])
    with made.cluster as cluster:
        cluster.allow("alice", "All", topic="*")
        cluster.allow("alice", "Read", group="dashboard")
        cluster.allow("bob", "Describe", topic="guarded")
        cluster.allow("bob", "Write", topic="own")
        cluster.create("guarded")
        with logstore.connect(cluster.bootstrap) as topics:
            topics["guarded"].append(b"a")
        yield made


def options(bed: Secured, listener: str, mechanism: str, tmp_path: Path, user: str = "alice") -> dict[str, str]:
    """The options of a job, with Kafka's names behind ``kafka.``; a token comes from a file."""
    settings = {"bootstrap.servers": bed.cluster.address(listener), "security.protocol": LISTENERS[listener]}
    if "SSL" in listener:
        settings |= bed.tls()
    if mechanism:
        settings |= bed.login(mechanism, user)
    if mechanism == "OAUTHBEARER":
        (tmp_path / "token").write_text(bed.signer.token(user))
        settings["sasl.oauthbearer.token.endpoint.url"] = (tmp_path / "token").as_uri()
    return {f"kafka.{key}": value for key, value in settings.items()}


def read(spark: SparkSession, form: str, told: Mapping[str, str], **more: str) -> DataFrame:
    return spark.read.format(form).options(**told, **more).load()


def write(table: DataFrame, told: Mapping[str, str], topic: str) -> None:
    table.write.format("logstore").mode("append").options(**told, topic=topic).save()


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_sink_and_source_by_each_protocol_and_mechanism(
    spark: SparkSession, bed: Secured, tmp_path: Path, listener: str, mechanism: str
) -> None:
    topic = f"spark-{listener}-{mechanism}"
    bed.cluster.create(topic, 3)
    told, sent = options(bed, listener, mechanism, tmp_path), records(spark)
    write(sent, told, topic)
    ours = read(spark, "logstore", told, subscribe=topic, includeHeaders="true")
    assert fingerprint(ours) == fingerprint(sent)
    if mechanism == "OAUTHBEARER":  # the connector would need a class of Java's to read a file
        told = {"kafka.bootstrap.servers": bed.cluster.bootstrap}
    theirs = read(spark, "kafka", told, subscribe=topic, includeHeaders="true")
    assert rows(ours) == rows(theirs)


def test_a_stream_over_tls_and_scram_from_topic_to_topic_shows_no_secret(
    spark: SparkSession, bed: Secured, tmp_path: Path
) -> None:
    for topic in ("streamed-in", "streamed-out"):
        bed.cluster.create(topic, 3)
    told = options(bed, "SASL_SSL", "SCRAM-SHA-512", tmp_path)
    write(records(spark), told, "streamed-in")
    reader = spark.readStream.format("logstore").options(**told, subscribe="streamed-in", commitGroup="dashboard")
    stream = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="700").load()
    writer = stream.select("key", "value").writeStream.format("logstore").outputMode("append")
    checkpoint = tmp_path / "checkpoint"
    writer = writer.options(**told, topic="streamed-out").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert sum(batches) == RECORDS
    assert len(batches) > 1
    columns = ("key", "value")
    with logstore.connect(bed.cluster.bootstrap) as cluster:
        committed = cluster.committed("dashboard")
        assert sum(each.offset for each in committed.values()) == RECORDS
        assert [each.records for each in cluster.lag("dashboard")] == [0] * 3
    # A refused commit does not stop a stream: its checkpoint says where it goes on.
    refused = spark.readStream.format("logstore").options(**told, subscribe="streamed-in", commitGroup="strangers")
    writer = refused.options(startingOffsets="earliest").load().writeStream.format("noop")
    other = writer.option("checkpointLocation", str(tmp_path / "other")).trigger(availableNow=True).start()
    other.awaitTermination()
    assert sum(progress["numInputRows"] for progress in other.recentProgress) == RECORDS
    with logstore.connect(bed.cluster.bootstrap) as cluster:
        assert cluster.committed("strangers") == {}
    copied = read(spark, "kafka", told, subscribe="streamed-out")
    assert fingerprint(copied, *columns) == fingerprint(records(spark), *columns)

    shown = [str(progress) for progress in query.recentProgress]
    shown += [plan_of(query), plan_of(stream), plan_of(read(spark, "logstore", told, subscribe="streamed-in"))]
    shown += [path.read_text(errors="replace") for path in checkpoint.rglob("*") if path.is_file()]
    assert_hidden(shown)


def test_a_pipeline_by_a_profile_over_tls_and_scram_shows_no_secret(
    spark: SparkSession,
    bed: Secured,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Lines of files to a topic, with our log and that of Spark at DEBUG."""
    told = options(bed, "SASL_SSL", "SCRAM-SHA-512", tmp_path)
    profile = tmp_path / "alice.properties"
    settings = {key.removeprefix("kafka."): value for key, value in told.items()}
    del settings["bootstrap.servers"]
    profile.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    for number in range(1, 4):
        write_csv(tmp_path / "in", number, 200)
    place = {"path": "", "bootstrap": bed.cluster.address("SASL_SSL"), "profile": str(profile)}
    parameters = dataclasses.replace(files_of(tmp_path, key="carrier", topic="lines"), **place)
    logging.getLogger("py4j").setLevel(logging.INFO)  # of what Python says to the JVM, it logs every word
    with caplog.at_level(logging.DEBUG), all_logged(spark, tmp_path / "spark.log"):
        assert files.run(spark, parameters).counts == {"records": 600, "refused": 0}
    assert read(spark, "kafka", told, subscribe="lines").count() == 600
    shown = [repr(parameters), str(parameters), caplog.text, *capfd.readouterr()]
    shown.append((tmp_path / "spark.log").read_text(errors="replace"))
    assert "MicroBatchExecution" in shown[-1], "Spark has logged nothing"
    shown += [path.read_text(errors="replace") for path in Path(parameters.checkpoint).rglob("*") if path.is_file()]
    assert_hidden(shown)


@contextlib.contextmanager
def all_logged(spark: SparkSession, path: Path) -> Iterator[None]:
    """Have the log of Spark's JVM, at DEBUG, in a file too."""
    java: Any = spark._jvm
    log4j = java.org.apache.logging.log4j
    made = log4j.core.appender.FileAppender.newBuilder()
    made.setName("planted")
    made.withFileName(str(path))
    made.setLayout(log4j.core.layout.PatternLayout.newBuilder().withPattern("%p %c %m %ex%n").build())
    appender = made.build()
    appender.start()
    root = log4j.LogManager.getRootLogger()
    root.addAppender(appender)
    spark.sparkContext.setLogLevel("DEBUG")
    try:
        yield
    finally:
        spark.sparkContext.setLogLevel("ERROR")
        root.removeAppender(appender)
        appender.stop()


def test_a_profile_that_cannot_be_used_is_said_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    told = files_of(tmp_path, topic="lines")
    for profile, bootstrap, said in (
        (tmp_path / "none", "localhost:1", f"profile: {tmp_path}/none: No such file or directory"),
        (tmp_path / "none", "", "profile: expected bootstrap with it"),
    ):
        place = {"path": "" if bootstrap else told.path, "bootstrap": bootstrap, "profile": str(profile)}

        def run(place: dict[str, str] = place) -> None:
            files.run(spark, dataclasses.replace(told, **place))

        with pytest.raises(InvalidSettingError, match=re.escape(said)):
            run()


def plan_of(table: Any) -> str:
    """What ``explain`` prints of a data frame or a query."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        table.explain(True)
    return printed.getvalue()


def assert_hidden(shown: list[str]) -> None:
    text = "\n".join(shown)
    for secret in (*USERS.values(), WRONG):
        assert secret not in text


def test_a_password_of_a_file_and_one_of_librdkafkas_names(
    spark: SparkSession, bed: Secured, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(USERS["alice"])
    told = options(bed, "SASL_SSL", "SCRAM-SHA-256", tmp_path)
    del told["kafka.sasl.jaas.config"]
    told |= {"kafka.sasl.username": "alice", "kafka.sasl.password": f"{{file:{tmp_path}/password}}"}
    bed.cluster.create("named")
    write(records(spark), told, "named")
    assert read(spark, "logstore", told, subscribe="named").count() == RECORDS


@pytest.mark.parametrize("way", ["source", "sink", "stream"])
def test_a_wrong_password_is_one_sentence_without_it_and_no_storm(
    spark: SparkSession, bed: Secured, tmp_path: Path, way: str
) -> None:
    told = options(bed, "SASL_SSL", "SCRAM-SHA-512", tmp_path)
    key = "kafka.sasl.jaas.config"
    told[key] = told[key].replace(USERS["alice"], WRONG)
    before = bed.broker.printed().count("Failed authentication")
    with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED") as caught:
        attempt(spark, told, "wrong", way, tmp_path)
    assert re.search(r"login of SCRAM-SHA-512 at 127\.0\.0\.1:\d+", str(caught.value))
    assert_hidden([str(caught.value)])
    assert bed.broker.printed().count("Failed authentication") - before <= 2


@pytest.mark.parametrize("way", ["source", "sink", "stream"])
def test_a_user_without_an_acl_is_told_so(spark: SparkSession, bed: Secured, tmp_path: Path, way: str) -> None:
    told = options(bed, "SASL_SSL", "SCRAM-SHA-512", tmp_path, "bob")
    with pytest.raises(Exception, match="TOPIC_AUTHORIZATION_FAILED"):
        attempt(spark, told, "guarded", way, tmp_path)


def attempt(spark: SparkSession, told: Mapping[str, str], topic: str, way: str, tmp_path: Path) -> None:
    if way == "source":
        read(spark, "logstore", told, subscribe=topic).count()
    elif way == "sink":
        write(records(spark), told, topic)
    else:
        stream = spark.readStream.format("logstore").options(**told, subscribe=topic, startingOffsets="earliest")
        writer = stream.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()


def test_half_of_the_security_is_refused_with_all_that_is_missing(spark: SparkSession, bed: Secured) -> None:
    told = {"kafka.bootstrap.servers": bed.cluster.address("SASL_SSL"), "kafka.security.protocol": "SASL_SSL"}
    with pytest.raises(Exception, match=r"sasl\.mechanism"):
        read(spark, "logstore", told, subscribe="x").count()
