"""Findings of a diagnosis, of a directory or of a cluster: what was found, where, and what to do."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Level(enum.StrEnum):
    """Severity of a finding."""

    PROBLEM = "problem"  #: a part of it cannot be used, or has lost data or copies of it
    WARNING = "warning"  #: it works, and something should be done
    INFO = "info"  #: a fact without need for action


class Finding(NamedTuple):
    """One observation."""

    level: Level
    name: str  #: of the kind, such as ``foreign-directory``
    where: str
    what: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.level.value}: {self.where}: {self.what}" + (f"; {self.advice}" if self.advice else "")
