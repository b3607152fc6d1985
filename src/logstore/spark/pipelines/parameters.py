"""Parameters of a pipeline, with their help, and the report of a run.

Plain dataclasses; imports neither PySpark nor pyarrow. Immutable, any thread.
"""

from __future__ import annotations

import dataclasses
import math
import os
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, NamedTuple

from logstore.config.quantities import duration_ms
from logstore.errors import InvalidSettingError


def parameter(
    default: Any = MISSING,
    help: str = "",
    *,
    scale: bool = False,
    least: int | None = None,
    most: int | None = None,
) -> Any:
    """Define a field of a class of parameters; without a default it has to be given.

    ``scale`` marks a parameter to change when there is more data; ``logstore pipeline describe`` shows the mark. A
    number is at least ``least`` and at most ``most``.
    """
    return field(default=default, metadata={"help": help, "scale": scale, "least": least, "most": most})


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of every pipeline. All topics are in one store, named by ``path`` or ``bootstrap``."""

    stateful: ClassVar[bool] = True  #: continues where it ended, and so needs a checkpoint

    path: str = parameter("", "Directory of the store.")
    bootstrap: str = parameter("", "host:port,... of a broker, instead of a directory.")
    profile: str = parameter(
        "", "With bootstrap: file with settings of the connection, such as security.protocol: properties or TOML."
    )
    checkpoint: str = parameter(
        help="Directory of the pipeline's state; with that of an earlier run, the pipeline continues from its end."
    )
    continuous: bool = parameter(
        False, "Run until stopped; otherwise process the input that exists at the start, and end."
    )
    interval_s: float = parameter(1.0, "With continuous: seconds between the starts of two micro-batches.", least=0)
    partitions: int = parameter(4, "Partitions of each topic that the pipeline creates.", scale=True, least=1)
    max_offsets: int = parameter(
        0, "Records of a topic taken in one micro-batch; 0 takes all that exist.", scale=True, least=0
    )
    fail_on_data_loss: bool = parameter(True, "Records that were deleted before they were read end the run.")

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.bootstrap):
            found = "both" if self.path else "neither"
            raise InvalidSettingError(
                {"path": f"name the store by either path (--dir) or bootstrap, found {found}"}
            )
        self.require("profile", not self.profile or bool(self.bootstrap), "bootstrap with it")
        if self.stateful and not self.checkpoint:
            raise InvalidSettingError({"checkpoint": "expected a directory, found nothing"})
        for each in dataclasses.fields(self):
            value, least, most = getattr(self, each.name), each.metadata.get("least"), each.metadata.get("most")
            if isinstance(value, float):
                self.require(each.name, math.isfinite(value), "a number")
            if most is not None:
                self.require(each.name, least <= value <= most, f"{least} to {most}")
            elif least is not None:
                self.require(each.name, value >= least, f"{least} or more")
        self.check()

    def check(self) -> None:
        """Refuse parameters by rules that `parameter` cannot express, such as one between two parameters."""

    def checkpoint_of(self, stage: str) -> str:
        """Return the directory where the query of that name keeps its own state."""
        return os.path.join(self.checkpoint, stage)

    def require(self, name: str, holds: bool, expected: str) -> None:
        """Refuse a parameter that is out of range.

        Raises:
            InvalidSettingError: ``holds`` is false; parameter, value and expected range are named.
        """
        if not holds:
            raise InvalidSettingError({name: f"expected {expected}, found {getattr(self, name)!r}"})

    def require_duration(self, name: str, at_least_ms: int = 0) -> None:
        """Refuse a parameter that is not a duration such as ``30m`` or ``30 minutes``.

        Raises:
            InvalidSettingError: it is not a duration, has no unit, or is shorter than ``at_least_ms``.
        """
        text = getattr(self, name)
        self.require(name, not text.strip().isdigit(), "a unit with the number, such as 30s or 30 minutes")
        try:
            holds = duration_ms(text) >= at_least_ms
        except ValueError as error:
            raise InvalidSettingError({name: str(error)}) from None
        self.require(name, holds, "more than 0")

    def require_different(self, *names: str) -> None:
        """Refuse one topic for two purposes.

        Raises:
            InvalidSettingError: a topic is named by two of these parameters.
        """
        seen: dict[str, str] = {}
        for name in names:
            value = getattr(self, name)
            for topic in value if isinstance(value, tuple) else (value,):
                if topic in seen:
                    other = seen[topic] if seen[topic] != name else "itself"
                    raise InvalidSettingError({name: f"{topic} is named by {other} already; give another topic"})
                seen[topic] = name


def interval_of(text: str) -> str:
    """Convert a duration such as ``30m`` or ``30 minutes`` to Spark's format."""
    return f"{duration_ms(text)} milliseconds"


class Parameter(NamedTuple):
    """One parameter as a command or a page shows it."""

    name: str
    type: Any  #: ``str``, ``int``, ``float``, ``bool`` or ``tuple[str, ...]``
    default: Any  #: `dataclasses.MISSING` where one has to be given
    help: str
    scale: bool

    @property
    def required(self) -> bool:
        return self.default is MISSING


def parameters_of(parameters: type[Parameters]) -> list[Parameter]:
    """Return the parameters of a class, its own before those of every pipeline."""
    types = typing.get_type_hints(parameters)
    common = {each.name for each in dataclasses.fields(Parameters)}
    found = [
        Parameter(
            each.name,
            types[each.name],
            each.default,
            each.metadata.get("help", ""),
            each.metadata.get("scale", False),
        )
        for each in dataclasses.fields(parameters)
    ]
    return sorted(found, key=lambda each: each.name in common)


class Report(NamedTuple):
    """Result of one run of a pipeline: its name, and counts by what was counted."""

    pipeline: str
    counts: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.pipeline}: " + ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
