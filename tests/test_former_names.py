"""Former names of public classes, functions, arguments and fields: each still works, with a warning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import logstore.errors
from logstore import Log
from logstore.config.log import LogConfig
from logstore.log import HighWatermarkPolicy, StandalonePolicy
from logstore.store.commit import restore, staged_writer
from logstore.testing.conformance import HighWatermarkPolicyConformance, OwnerConformance


def test_the_error_of_a_checkpoint_copy() -> None:
    with pytest.warns(DeprecationWarning, match=r"logstore\.errors\.ImageMovedError is CheckpointCopyError now"):
        assert logstore.errors.ImageMovedError is logstore.errors.CheckpointCopyError


@pytest.mark.parametrize(
    ("old", "new"), [("StagingFile", "StagedFileWriter"), ("staging_directory", "staged_directory")]
)
def test_the_writer_of_staged_files(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"staged_writer\.{old} is {new} now"):
        assert getattr(staged_writer, old) is getattr(staged_writer, new)
    with pytest.raises(AttributeError, match="surprise"):
        staged_writer.surprise  # noqa: B018


def test_the_restore_of_a_topic() -> None:
    with pytest.warns(DeprecationWarning, match=r"restore\.Replay is Restore now"):
        assert restore.Replay is restore.Restore
    with pytest.raises(AttributeError, match="surprise"):
        restore.surprise  # noqa: B018


def test_the_argument_of_a_log(tmp_path: Path) -> None:
    class Nothing(HighWatermarkPolicy):
        def high_watermark(self, log_end_offset: int, synced_end: int, high_watermark: int) -> int:
            return 0

    with pytest.warns(
        DeprecationWarning, match=r"Log\.open\(owner=\.\.\.\) is Log\.open\(policy=\.\.\.\) now"
    ) as told:
        log = Log.open(tmp_path / "t-0", owner=Nothing())
    assert [os.path.basename(each.filename) for each in told] == [os.path.basename(__file__)]
    with log:
        log.append([b"a"])
        assert log.high_watermark == 0


def test_the_field_of_a_cleanable_part(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", cleanup_policy="compact") as log:
        part = log.maintenance.cleanable()
    with pytest.warns(DeprecationWarning, match=r"Cleanable\.uncleanable is cleaner_error now"):
        assert part.uncleanable is part.cleaner_error is None


class TestOurPolicy(OwnerConformance):
    """A suite of an embedder that still defines `make_owner`."""

    pytestmark = pytest.mark.filterwarnings("ignore:OwnerConformance.make_owner is:DeprecationWarning")

    def make_owner(self, config: LogConfig) -> HighWatermarkPolicy:
        return StandalonePolicy(config)


def test_the_suite_of_policies() -> None:
    assert issubclass(OwnerConformance, HighWatermarkPolicyConformance)
    with pytest.warns(DeprecationWarning, match=r"make_owner is HighWatermarkPolicyConformance\.make_policy now"):
        TestOurPolicy().make_policy(LogConfig())
