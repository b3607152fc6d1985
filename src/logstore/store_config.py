"""The settings of a whole store: the defaults of its topics, and what belongs to no single log.

No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logstore.config import LogConfig, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Settings of a store."""

    log: LogConfig = field(default_factory=LogConfig)  #: what a topic has that sets nothing itself
    num_partitions: int = 1
    node_id: int = 0

    @classmethod
    def of(cls, settings: Mapping[str, Setting] | StoreConfig | None = None, /, **fields: Setting) -> StoreConfig:
        """Settings from dotted keys and fields by name."""
        if isinstance(settings, StoreConfig):
            return settings
        return cls(log=LogConfig.of(settings, **fields))
