"""Conformance suite of `HighWatermarkPolicy`."""

from __future__ import annotations

from abc import abstractmethod

from logstore.config.log import LogConfig
from logstore.log import HighWatermarkPolicy, Log
from logstore.renamed import warn
from logstore.testing.clock import ManualClock
from logstore.testing.simdisk import SimDisk


class HighWatermarkPolicyConformance:
    """The suite for `logstore.log.HighWatermarkPolicy`, which decides how far consumers of a log may read."""

    @abstractmethod
    def make_policy(self, config: LogConfig) -> HighWatermarkPolicy:
        """Return the policy to test, for a log of these settings."""

    def settle(self, log: Log) -> None:
        """Make the policy show all records of the log: by default by a flush."""
        log.flush()

    def open_log(self, files: SimDisk, **settings: object) -> Log:
        """Open a log with the policy, on a disk in memory."""
        config = LogConfig.of(settings)  # type: ignore[arg-type]  # `of` checks them
        policy = self.make_policy(config)
        return Log.open("/data/t-0", config, policy=policy, clock=ManualClock(), files=files)

    def test_an_answer_depends_on_what_it_is_told_and_is_a_number(self) -> None:
        policy = self.make_policy(LogConfig())
        answers = [policy.high_watermark(10, 5, 3) for _ in range(3)]
        assert all(isinstance(answer, int) for answer in answers)
        assert len(set(answers)) == 1, "asked the same three times, it gave different answers"

    def test_an_empty_log_shows_nothing(self) -> None:
        with self.open_log(SimDisk()) as log:
            assert log.high_watermark == log.log_end_offset == 0
            assert not log.read(0)

    def test_the_high_watermark_never_falls_and_never_passes_the_end(self) -> None:
        with self.open_log(SimDisk()) as log:
            seen = [0]
            for number in range(20):
                log.append([b"%d" % number] * (1 + number % 3), ack="synced" if number % 4 == 3 else "written")
                assert seen[-1] <= log.high_watermark <= log.log_end_offset
                seen.append(log.high_watermark)
                if number % 5 == 4:
                    log.flush()
                    assert seen[-1] <= log.high_watermark <= log.log_end_offset

    def test_consumers_see_what_is_below_it_and_no_more(self) -> None:
        with self.open_log(SimDisk()) as log:
            for number in range(5):
                log.append([b"%d" % number])
                assert [record.offset for record in log] == list(range(log.high_watermark))

    def test_everything_is_shown_once_it_has_settled(self) -> None:
        with self.open_log(SimDisk()) as log:
            log.append([b"a", b"b"])
            log.append([b"c"])
            self.settle(log)
            assert log.high_watermark == log.log_end_offset == 3, "a settled log does not show all its records"
            assert log.read(0).values() == [b"a", b"b", b"c"]

    def test_what_was_shown_is_shown_again_after_the_log_was_reopened(self) -> None:
        disk = SimDisk()
        with self.open_log(disk) as log:
            log.append([b"a", b"b"])
            self.settle(log)
        with self.open_log(disk) as log:
            self.settle(log)
            assert log.read(0).values() == [b"a", b"b"]

    def test_a_flush_that_fails_shows_nothing_that_was_only_promised_after_it(self) -> None:
        disk = SimDisk()
        log = self.open_log(disk, visible_after="flush")
        log.append([b"a"], ack="synced")
        self.settle(log)
        shown = log.high_watermark
        log.append([b"b"])
        disk.fail("fdatasync", times=-1)
        try:
            log.flush()
        except OSError:
            pass
        after = log.high_watermark
        disk.heal()
        log.close()
        assert shown <= after <= 2
        if after == 2:
            # The second record is shown although its flush failed. Only the policy itself may decide that.
            policy = self.make_policy(LogConfig(visible_after="flush"))
            assert policy.high_watermark(2, 1, 1) == 2, "the log showed more than its policy has said"


class OwnerConformance(HighWatermarkPolicyConformance):  # former name
    """`HighWatermarkPolicyConformance` by its old name, which the next release deletes."""

    @abstractmethod
    def make_owner(self, config: LogConfig) -> HighWatermarkPolicy:  # former name
        """Return the policy to test, for a log of these settings."""

    def make_policy(self, config: LogConfig) -> HighWatermarkPolicy:
        warn("OwnerConformance.make_owner", "HighWatermarkPolicyConformance.make_policy")  # former name
        return self.make_owner(config)  # former name
