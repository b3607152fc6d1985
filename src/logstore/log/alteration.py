"""Changing the settings of a log that is open: which may change, and in what order they do.

Most settings are asked for where they are used, so the next append or roll goes by the new ones. Two
decide how a log is opened at all, and are refused while it is.
"""

from __future__ import annotations

from logstore._interrupts import held
from logstore.config import LogConfig
from logstore.errors import InvalidSettingError
from logstore.log.state import State

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
