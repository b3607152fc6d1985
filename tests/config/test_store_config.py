"""The settings of a store: by Kafka's keys, from four sources, nothing that is not understood."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import logstore
from logstore import ConsumerConfig, Isolation, LogConfig, ProducerConfig, StoreConfig
from logstore.config import client as client_config
from logstore.config import kafka_keys
from logstore.config.broker import BrokerConfig
from logstore.config.log import WITHOUT_EFFECT
from logstore.config.remote import ClusterConsumerConfig, WireConfig
from logstore.config.schema import keys_of
from logstore.config.store import DEFAULTS, ConfigLayer, ConfigSource
from logstore.config.text import PREFIX
from logstore.errors import InvalidSettingError, StorageError, UnknownSettingError

#: The keys of the file that a Kafka 4.3 is delivered with, and its values.
SERVER_PROPERTIES = """\
# Server basics
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093

# Sockets
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

# Logs
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1

#log.flush.interval.messages=10000
log.retention.hours=48
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


@pytest.mark.row("K1")
def test_a_server_properties_is_taken_as_it_is(tmp_path, caplog):
    path = tmp_path / "server.properties"
    path.write_text(SERVER_PROPERTIES)
    with caplog.at_level(logging.INFO, "logstore.config.store"):
        config = StoreConfig.load(path)
    assert config.changed() == {
        "node.id": 7,
        "log.dirs": "/tmp/kraft-combined-logs",
        "retention.ms": 48 * 3_600_000,
    }
    assert str(config.source("retention.ms")) == f"file {path} (log.retention.hours)"
    assert config.source("segment.bytes") == ConfigSource(ConfigLayer.FILE, "log.segment.bytes", str(path))
    (record,) = caplog.records
    assert "num.io.threads" in record.getMessage()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("min.insync.replicas", 2),
        ("default.replication.factor", "3"),
        ("offsets.topic.replication.factor", 3),
        ("transaction.state.log.min.isr", 2),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("listeners", "PLAINTEXT://:9092,SASL_SSL://:9093"),
        ("advertised.listeners", "SSL://host:9092"),
        ("security.inter.broker.protocol", "SSL"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
        ("ssl.client.auth", "required"),
        ("ssl.keystore.location", "/etc/kafka/keys.jks"),
        ("listener.name.internal.ssl.keystore.location", "/etc/kafka/keys.jks"),
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("remote.log.storage.system.enable", "true"),
        ("remote.storage.enable", "true"),
    ],
)
def test_a_key_that_promises_a_protection_which_is_not_kept_is_named_by_one_warning(tmp_path, caplog, key, value):
    """From a file, an argument and a variable; and once, though a store is opened with what a file gave."""
    file = tmp_path / "server.properties"
    file.write_text(f"{key}={value}\n")
    config = StoreConfig.load(file)
    with logstore.open(tmp_path / "store", config, environ={}):
        pass
    assert [record.levelname for record in caplog.records if key in record.getMessage()].count("WARNING") == 1
    assert str(value) not in caplog.text or len(str(value)) == 1
    caplog.clear()
    StoreConfig.of({key: value})
    assert "settings that promise what is not kept here" in caplog.text
    if "listener.name" not in key:
        caplog.clear()
        StoreConfig.from_environment({"LOGSTORE_" + key.replace(".", "_").upper(): str(value)})
        assert key in caplog.text


def test_listeners_of_any_name_are_known_by_their_protocol(caplog):
    plain = "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL,SSL:SSL"
    StoreConfig.of({"listeners": "INSIDE://:9092,CONTROLLER://:9093", "listener.security.protocol.map": plain})
    assert not caplog.text
    StoreConfig.of({"listeners": "INSIDE://:9092,OUTSIDE://:9094", "listener.security.protocol.map": plain})
    assert "listeners" in caplog.text


def test_what_is_kept_anyway_or_promises_nothing_is_named_by_no_warning(caplog):
    StoreConfig.of(
        {
            "min.insync.replicas": 1,
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
            "ssl.client.auth": "none",
            "security.inter.broker.protocol": "PLAINTEXT",
            "listeners": "PLAINTEXT://:9092",
            "remote.log.storage.system.enable": False,
            "unclean.leader.election.enable": True,  # one copy is never behind another
            "num.io.threads": 8,
        }
    )
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_topic_that_asks_for_copies_is_told_that_there_is_one(tmp_path, caplog):
    with logstore.open(tmp_path / "store", environ={}) as store:
        store.create_topic("safe", min_insync_replicas=2)
        assert caplog.text.count("min.insync.replicas (there is one copy of each record") == 1
        caplog.clear()
        store.alter_topic("safe", retention_ms=5)
        assert not caplog.text
        store.alter_topic("safe", {"min.insync.replicas": 3})
        assert "there is one copy" in caplog.text


@pytest.mark.row("K1")
def test_every_key_of_kafkas_topics_and_brokers_is_honoured_or_known_to_have_no_effect():
    for scope in ("topic", "broker"):
        for key, facts in kafka_keys.keys(scope).items():
            if not facts.internal:
                value = _allowed(key, facts)
                StoreConfig.of({key: value})
    assert len(kafka_keys.keys("broker")) > 300
    assert {key for key, facts in kafka_keys.keys("topic").items() if not facts.internal} <= (
        set(DEFAULTS) | WITHOUT_EFFECT
    )


def _allowed(key, facts):
    if key == "broker.id":  # Kafka's default is that of a time when ZooKeeper gave numbers
        return 1
    return facts.default if facts.default is not None else ("broker" if facts.type in ("list", "string") else 1)


#: Where we differ from Kafka on purpose; each is said at its field.
DIFFERENT = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "log.dirs": "",
    "retention.ms": "-1",
}


@pytest.mark.row("K1")
@pytest.mark.parametrize(
    ("scope", "defaults"), [("topic", DEFAULTS), ("broker", DEFAULTS), *client_config.DEFAULTS.items()]
)
def test_defaults_are_kafkas(scope, defaults):
    compared = 0
    for key, facts in kafka_keys.keys(scope).items():
        if key not in defaults or facts.required or key in ("partitioner.class", "group.id"):
            continue
        ours = defaults[key]
        if key in DIFFERENT:
            assert _word(ours) == DIFFERENT[key]
        elif isinstance(ours, float):
            assert ours == float(facts.default)
        else:
            assert _word(ours) == facts.default.lower()
        compared += 1
    assert compared >= 6


def _word(value):
    return str(value).lower()


@pytest.mark.row("K1")
def test_every_key_that_is_honoured_says_what_it_does_and_no_other():
    ours = {*DEFAULTS, *client_config.DEFAULTS["producer"], *client_config.DEFAULTS["consumer"]}
    ours |= {key for key in keys_of(WireConfig) if key.startswith(("security.", "ssl.", "sasl."))}
    ours |= {*keys_of(ClusterConsumerConfig), *keys_of(BrokerConfig)}
    meanings = kafka_keys.meanings()
    assert set(meanings) == ours
    for key in ours - {"sasl.username", "sasl.password"}:  # librdkafka's
        known = any(key in kafka_keys.keys(scope) for scope in ("topic", "broker", "producer", "consumer"))
        assert known != key.startswith("logstore."), key


# --- the four sources --------------------------------------------------------------------------


@pytest.mark.row("K1")
def test_an_argument_wins_over_the_environment_that_over_a_file_that_over_the_default(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('num.partitions = 2\nretention.ms = 2\nsegment.ms = 2\n"logstore.ack" = "synced"\n')
    environ = {"LOGSTORE_LOG_RETENTION_MS": "3", "LOGSTORE_NUM_PARTITIONS": "3", "LOGSTORE_ACK": "written"}
    config = StoreConfig.layered(StoreConfig.load(path), environ=environ, arguments={"num_partitions": 4})
    assert (config.num_partitions, config.log.retention_ms, config.log.segment_ms) == (4, 3, 2)
    assert config.log.ack == "written"
    assert {
        key: str(config.source(key)) for key in ("num.partitions", "retention.ms", "segment.ms", "flush.ms")
    } == {
        "num.partitions": "argument (num_partitions)",
        "retention.ms": "environment LOGSTORE_LOG_RETENTION_MS",
        "segment.ms": f"file {path} (segment.ms)",
        "flush.ms": "default",
    }
    again = StoreConfig.layered(config, environ={"LOGSTORE_NUM_PARTITIONS": "9"})
    assert again.num_partitions == 4


def test_hours_in_a_stronger_source_win_over_milliseconds_in_a_weaker_one(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("log.retention.ms=5\nlog.retention.hours=1\n")
    assert StoreConfig.load(path).log.retention_ms == 5
    config = StoreConfig.layered(StoreConfig.load(path), environ={"LOGSTORE_LOG_RETENTION_HOURS": "2"})
    assert config.log.retention_ms == 7_200_000


@pytest.mark.row("K1")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"log.retention.hours": 1}, 3_600_000),
        ({"log.retention.hours": 1, "log.retention.minutes": 1}, 60_000),
        ({"log.retention.ms": 1, "log.retention.minutes": 1, "log.retention.hours": 1}, 1),
        ({"log.retention.hours": "-1"}, -1),
        ({"retention.ms": 7, "log.retention.ms": 1}, 7),
    ],
)
def test_milliseconds_win_over_minutes_over_hours(given, expected):
    for order in (given, dict(reversed(given.items()))):
        assert StoreConfig.of(order).log.retention_ms == expected
        assert LogConfig.of(order).retention_ms == expected


@pytest.mark.parametrize(
    ("given", "key", "expected"),
    [
        ({"log.roll.hours": 2}, "segment.ms", 7_200_000),
        ({"log.roll.hours": 2, "log.roll.ms": 5}, "segment.ms", 5),
        ({"log.roll.jitter.hours": 1}, "segment.jitter.ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": 9}, "flush.ms", 9),
        ({"log.flush.scheduler.interval.ms": 9, "log.flush.interval.ms": 8}, "flush.ms", 8),
        ({"broker.id": 3}, "node.id", 3),
        ({"broker.id": 3, "node.id": 4}, "node.id", 4),
    ],
)
def test_broker_names_of_one_setting_have_kafkas_precedence(given, key, expected):
    assert dict(StoreConfig.of(given).items())[key] == expected


@pytest.mark.row("K1")
def test_every_wrong_key_and_value_is_named_at_once():
    with pytest.raises(UnknownSettingError) as caught:
        StoreConfig.of({"num.partition": 1, "retenton.ms": 5, "node.id": -1, "log.retention.hours": "long"})
    assert set(caught.value.problems) == {"num.partition", "retenton.ms", "node.id", "log.retention.hours"}
    assert caught.value.problems["num.partition"] == "unknown; the nearest name is num.partitions"
    assert caught.value.problems["retenton.ms"] == "unknown; the nearest name is retention.ms"
    with pytest.raises(InvalidSettingError) as caught:
        StoreConfig.of({"num.partitions": 0, "log.segment.bytes": 1})
    assert set(caught.value.problems) == {"num.partitions", "log.segment.bytes"}


def test_wrong_variables_are_named_as_they_stand_in_the_environment():
    with pytest.raises(UnknownSettingError) as caught:
        StoreConfig.from_environment({"LOGSTORE_RETENTON_MS": "1", "LOGSTORE_SEGMENT_BYTES": "x"})
    assert caught.value.problems["LOGSTORE_RETENTON_MS"] == "unknown; the nearest name is LOGSTORE_RETENTION_MS"
    assert "whole number" in caught.value.problems["LOGSTORE_SEGMENT_BYTES"]


@pytest.mark.row("K1")
def test_every_setting_can_be_given_by_the_environment():
    for key, default in DEFAULTS.items():
        variable = PREFIX + key.removeprefix("logstore.").replace(".", "_").upper()
        config = StoreConfig.from_environment({variable: str(default)})
        assert config == StoreConfig()
        assert str(config.source(key)) == f"environment {variable}"
    assert StoreConfig.from_environment({"LOGSTORE_NUM_IO_THREADS": "3"}) == StoreConfig()


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(StorageError, match="settings cannot be read"):
        StoreConfig.load(tmp_path / "missing.toml")


# --- what values mean --------------------------------------------------------------------------


def test_the_directory_is_the_path_or_the_one_of_log_dirs(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/a\n")
    assert StoreConfig().directory("/b") == "/b"
    assert StoreConfig.of({"log.dirs": "/a"}).directory() == "/a"
    assert StoreConfig.of({"log.dir": "/a"}).directory("/a/") == "/a"
    assert StoreConfig.load(file).directory("/b") == "/b"
    with pytest.raises(InvalidSettingError, match="names /a, but the path given is /b"):
        StoreConfig.of({"log.dirs": "/a"}).directory("/b")
    with pytest.raises(InvalidSettingError, match="names 2 directories"):
        StoreConfig.of({"log.dirs": "/a,/b"}).directory()
    with pytest.raises(InvalidSettingError, match="not set"):
        StoreConfig().directory()


@pytest.mark.parametrize(
    ("value", "bytes_of_1000"),
    [(-1, None), (500, 500), ("500", 500), ("80%", 800), (" 12.5 % ", 125), ("100%", 1_000)],
)
def test_a_budget_is_bytes_or_a_share(value, bytes_of_1000):
    assert StoreConfig.of({"logstore.disk.budget": value}).budget_bytes(1_000) == bytes_of_1000
    assert StoreConfig.of({"logstore.disk.reserve": value}).reserve_bytes(1_000) == (bytes_of_1000 or 0)


@pytest.mark.parametrize("value", ["101%", "-5%", "half", -2, 1.5, "%"])
def test_what_is_no_budget_is_refused(value):
    with pytest.raises(InvalidSettingError, match=r"logstore\.disk\.budget"):
        StoreConfig.of({"logstore.disk.budget": value})


def test_a_topic_has_the_stores_settings_but_for_its_own():
    config = StoreConfig.of({"log.retention.hours": 1, "segment.bytes": 4_096})
    topic = config.topic_config({"retention.ms": 5})
    assert (topic.retention_ms, topic.segment_bytes) == (5, 4_096)
    assert config.topic_config() is config.log
    assert config.replace(num_partitions=3).log == config.log


@pytest.mark.row("V1")
@pytest.mark.parametrize("other", [{"cleanup.policy": "compact"}, {"compression.type": "zstd"}])
def test_offsets_that_are_positions_exclude_compression_and_compaction(other):
    with pytest.raises(InvalidSettingError, match=next(iter(other))):
        LogConfig.of({"logstore.offset.mode": "bytes", **other})
    assert (
        LogConfig.of({"logstore.offset.mode": "bytes", "compression.type": "uncompressed"}).offset_mode == "bytes"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 4}, "at most max.compaction.lag.ms=4"),
        ({"compression.gzip.level": 0}, "-1 or 1 to 9"),
    ],
)
def test_settings_that_kafka_refuses_together_are_refused(given, message):
    with pytest.raises(InvalidSettingError, match=message):
        LogConfig.of(given)


# --- clients -----------------------------------------------------------------------------------


@pytest.mark.row("K1")
def test_settings_of_kafkas_clients_are_taken_as_they_are(caplog):
    with caplog.at_level(logging.INFO, "logstore.config.client"):
        producer = ProducerConfig.of(
            {
                "bootstrap.servers": "localhost:9092",
                "acks": "-1",
                "batch.size": "65536",
                "linger.ms": 20,
                "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            },
            compression_type="zstd",
        )
    assert (producer.acks, producer.batch_size, producer.partitioner_class) == ("all", 65_536, "roundrobin")
    assert producer.codec is logstore.Codec.ZSTD
    assert producer.default_ack is None
    assert "settings without effect here: bootstrap.servers" in caplog.text
    consumer = ConsumerConfig.of({"group.id": "billing", "isolation.level": "read_committed"}, max_poll_records=5)
    assert (consumer.group_id, consumer.isolation, consumer.max_poll_records) == (
        "billing",
        Isolation.READ_COMMITTED,
        5,
    )
    assert consumer.replace(group_id="other").max_poll_records == 5


@pytest.mark.row("K1")
@pytest.mark.parametrize(
    ("cls", "given", "meant"),
    [
        (ProducerConfig, "batch.sizes", "batch.size"),
        (ProducerConfig, "group.id", None),
        (ConsumerConfig, "group.ids", "group.id"),
        (ConsumerConfig, "auto.offset.resets", "auto.offset.reset"),
    ],
)
def test_an_unknown_key_of_a_client_is_refused_by_name(cls, given, meant):
    key = "batch.size" if cls is ProducerConfig else "max.poll.records"
    with pytest.raises(UnknownSettingError) as caught:
        cls.of({given: "x", key: -1})
    assert set(caught.value.problems) == {given, key}
    if meant:
        assert f"the nearest name is {meant}" in caught.value.problems[given]


@pytest.mark.parametrize(
    ("word", "age_ms"),
    [
        ("latest", None),
        ("by_duration:P1DT2H", 93_600_000),
        ("by_duration:PT0.5S", 500),
        ("BY_DURATION:pt1m", 60_000),
    ],
)
def test_a_consumer_may_begin_some_time_ago(word, age_ms):
    assert ConsumerConfig.of({"auto.offset.reset": word}).reset_age_ms == age_ms


@pytest.mark.parametrize("word", ["newest", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:P1DT"])
def test_what_is_no_beginning_is_refused(word):
    with pytest.raises(InvalidSettingError):
        ConsumerConfig.of({"auto.offset.reset": word})


def test_importing_the_settings_reads_no_table_and_no_parser():
    program = (
        "import sys; from logstore import StoreConfig, ProducerConfig; StoreConfig.of({'retention.ms': 5}); "
        + ("print(sorted({'json', 'tomllib', 'difflib', 'pkgutil'} & set(sys.modules)))")
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
