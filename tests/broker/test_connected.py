"""`logstore.connect` on our own broker: the cases that it passes on a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import logstore
from logstore.broker import Broker
from logstore.errors import ConfigError, UnsupportedVersionError
from logstore.remote.topics.store import RemoteStore
from tests.remote.topics.connected import ConnectedCases


@pytest.fixture
def cluster(broker: Broker) -> Iterator[RemoteStore]:
    with logstore.connect(broker.bootstrap, metadata_max_age_ms=500) as store:
        yield store


class TestServed(ConnectedCases):
    @pytest.mark.xfail(raises=UnsupportedVersionError, strict=True, reason="groups are not served yet")
    def test_one_program_runs_on_a_store_and_on_a_cluster(self, tmp_path: Path, cluster: RemoteStore) -> None:
        super().test_one_program_runs_on_a_store_and_on_a_cluster(tmp_path, cluster)

    def test_settings_of_a_topic_are_changed_and_taken_back(self, cluster: RemoteStore) -> None:
        """Other than at Kafka, a topic takes logstore's own settings, too."""
        cluster.create_topic("flights")
        assert cluster.alter_topic("flights", retention_ms=5, ack="synced") == {
            "logstore.ack": "synced",
            "retention.ms": "5",
        }
        assert cluster["flights"].config.ack == "synced"
        assert cluster.alter_topic("flights", {"logstore.ack": None}) == {"retention.ms": "5"}
        with pytest.raises(ConfigError, match=r"segment\.bytes"):
            cluster.alter_topic("flights", {"segment.bytes": 1, "retention.ms": 7})
        assert cluster["flights"].config.retention_ms == 5
