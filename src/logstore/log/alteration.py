"""Changing the settings of a log that is open: which may change, and in what order they do.

Most settings are asked for where they are used, so the next append or roll goes by the new ones. Two
decide how a log is opened at all, and are refused while it is. A log that begins to be compacted must have no
record without a key, unless its caller says that they may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from logstore.batch._batch import Batches
from logstore.config.log import LogConfig
from logstore.errors import InvalidSettingError, PolicyViolationError
from logstore.io._interrupts import held
from logstore.log.state import State
from logstore.records import TopicPartition

#: Settings that an open log has settled for good: field and key.
_FIXED = {"tail": "logstore.tail", "visible_after": "logstore.visible.after"}


def check(old: LogConfig, new: LogConfig) -> None:
    """Refuse what cannot change while a log is open.

    Raises:
        InvalidSettingError: naming every such setting. Nothing has changed.
    """
    problems = {
        key: f"cannot change from {getattr(old, name)} to {getattr(new, name)} while the log is open; close it, "
        "and open it again with the new setting"
        for name, key in _FIXED.items()
        if getattr(old, name) != getattr(new, name)
    }
    if problems:
        raise InvalidSettingError(problems)


def apply(state: State, config: LogConfig) -> None:
    """Let an open log go by other settings; raises as `check`, and then nothing has changed."""
    state.check_writable()
    with held(state.lock):
        check(state.config, config)
        state.reconfigure_locked(config)


def refuse_keyless(name: TopicPartition, chunks: Iterable[Batches], start: int) -> None:
    """Refuse what has a record without a key, at ``start`` or behind it: compaction would delete that.

    Raises:
        PolicyViolationError: the first such record is named.
    """
    for chunk in chunks:
        for batch in chunk.batches():
            if batch.is_control or not batch.validate(contiguous=False)[2]:
                continue
            offset = next((r.offset for r in batch if r.key is None and r.offset >= start), None)
            if offset is not None:
                raise PolicyViolationError(
                    f"partition {name.partition} of topic {name.topic!r} has records without a key, the first at "
                    f"offset {offset}, which compaction deletes; give drop_keyless=True (--drop-keyless) to lose "
                    "them, or leave cleanup.policy=delete"
                )
