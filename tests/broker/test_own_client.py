"""Our own client on our own broker: what its back end, its commands and `logstore.aio` promise on every cluster.

Cases of groups are marked: a broker without groups refuses them at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import logstore
from logstore.broker import Broker, serve
from logstore.errors import UnsupportedVersionError
from logstore.testing.conformance import BackendConformance, ProducerConformance
from logstore.testing.conformance.backends import BackendUnderTest
from tests.aio.connected import use_a_group, use_topics
from tests.cli.commands.cluster_cases import ClusterCommandCases, commands_on
from tests.cli.conftest import Line
from tests.remote.backend.clients_under_test import ClientsUnderTest

#: The case runs, and a group is the one thing that it misses.
without_groups = pytest.mark.xfail(raises=UnsupportedVersionError, strict=True, reason="groups are not served yet")


class TestBackend(BackendConformance, ProducerConformance):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    @contextmanager
    def under_test(self) -> Iterator[BackendUnderTest]:
        with (
            logstore.open(self.directory / "data", {"log.retention.ms": -1}) as store,
            serve(store, "127.0.0.1:0") as broker,
        ):
            scene = ClientsUnderTest(broker.bootstrap, {"retry.backoff.ms": 5, "fetch.max.wait.ms": 100})
            try:
                yield scene
            finally:
                scene.close()

    @without_groups
    def test_the_lag_of_a_group_counts_what_it_has_not_read(self) -> None:
        super().test_the_lag_of_a_group_counts_what_it_has_not_read()

    @without_groups
    def test_offsets_are_kept_by_group_and_partition(self) -> None:
        super().test_offsets_are_kept_by_group_and_partition()

    @without_groups
    def test_commits_that_cannot_be_are_refused(self) -> None:
        super().test_commits_that_cannot_be_are_refused()

    @without_groups
    def test_deleted_offsets_are_gone(self) -> None:
        super().test_deleted_offsets_are_gone()

    @without_groups
    def test_a_group_goes_on_where_it_has_committed(self) -> None:
        super().test_a_group_goes_on_where_it_has_committed()

    @without_groups
    def test_commits_that_are_not_waited_for_are_made_in_their_order(self) -> None:
        super().test_commits_that_are_not_waited_for_are_made_in_their_order()

    @without_groups
    def test_a_commit_of_a_consumer_has_the_epoch_of_the_record_before_it(self) -> None:
        super().test_a_commit_of_a_consumer_has_the_epoch_of_the_record_before_it()


class TestCommands(ClusterCommandCases):
    @pytest.fixture
    def brokers(self, broker: Broker) -> Broker:
        return broker

    @pytest.fixture
    def there(self, tmp_path: Path, broker: Broker) -> Line:
        return commands_on(Line(tmp_path / "data"), broker.bootstrap)

    def test_offsets_and_lag_of_a_cluster(self, there: Line) -> None:
        """Refused in one line, as long as groups are not served."""
        said = there.error("consume", "flights", "-e", "-g", "report")
        assert said.endswith("does not know FindCoordinatorRequest\n")
        assert len(said.splitlines()) == 1

    def test_the_doctor_is_content_with_topics_and_rights(self, there: Line) -> None:
        """It misses the keys of groups, and nothing else."""
        (missed,) = there.json("doctor", "-t", "flights", "--to", "produce", "--to", "manage", status=1)
        assert missed["what"].endswith("FindCoordinator, OffsetFetch, OffsetCommit")
        assert "the cluster has no topic of this name" in there("doctor", "-t", "nowhere", status=1)


def test_tasks_use_a_broker_as_they_use_a_store(broker: Broker) -> None:
    asyncio.run(use_topics(broker.bootstrap))


@without_groups
def test_tasks_are_a_group(broker: Broker) -> None:
    asyncio.run(use_a_group(broker.bootstrap))
