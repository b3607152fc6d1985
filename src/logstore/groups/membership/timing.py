"""The settings of a member, and its timers: pauses between tries, and the time since the last poll.

Times are milliseconds of any clock that does not go back; the caller gives "now".
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from logstore.clock import retry_pause_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Settings of one member of a group. Each field is Kafka's consumer config of the same name."""

    group_id: str
    group_instance_id: str | None = None  #: set for a static member (KIP-345)
    client_rack: str | None = None  #: client.rack
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


class Tries:
    """When the next try may begin: pauses double up to a maximum, and differ by a fifth at random."""

    def __init__(self, settings: MemberSettings, rng: Random) -> None:
        self._first_ms = settings.retry_backoff_ms
        self._longest_ms = settings.retry_backoff_max_ms
        self._rng = rng
        self._count = 0
        self.ready_ms = 0  #: no try begins earlier

    def pause(self, now_ms: int) -> None:
        """Let the next try wait."""
        self.ready_ms = now_ms + round(retry_pause_ms(self._count, self._first_ms, self._longest_ms, self._rng))
        self._count += 1

    def reset(self) -> None:
        """Note that a try has succeeded: the next one may begin at once."""
        self._count = 0
        self.ready_ms = 0

    def is_ready(self, now_ms: int) -> bool:
        """Tell whether a try may begin."""
        return now_ms >= self.ready_ms


class PollTimer:
    """Whether the application still polls (``max.poll.interval.ms``)."""

    def __init__(self, settings: MemberSettings, now_ms: int) -> None:
        self._interval_ms = settings.max_poll_interval_ms
        self.expires_ms = now_ms + self._interval_ms

    def polled(self, now_ms: int) -> None:
        """Note a poll."""
        self.expires_ms = now_ms + self._interval_ms

    def is_expired(self, now_ms: int) -> bool:
        """Tell whether the last poll was too long ago."""
        return now_ms >= self.expires_ms
