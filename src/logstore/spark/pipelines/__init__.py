"""Registry of the data pipelines that are ready to run on Spark, and their parameters.

This module is responsible for the registry. A pipeline is a module of this package. It has one frozen dataclass of
parameters derived from `parameters.Parameters`, and functions from data frame to data frame that need no topic. Its
function ``run(spark, parameters) -> Report`` is decorated with `pipeline`. Modules import PySpark inside their
functions, so that listing and describing work without it.

>>> get("files").summary
'Files (CSV, JSON lines, Parquet, text) into a topic, exactly once.'
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from logstore.errors import UnknownSettingError
from logstore.spark.pipelines.parameters import Parameter, Parameters, Report, parameter, parameters_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Parameter",
    "Parameters",
    "Pipeline",
    "Report",
    "get",
    "names",
    "parameter",
    "parameters_of",
    "pipeline",
]

#: Names of the pipelines, each that of the module of this package that registers it.
NAMES = ("activity", "archive", "files", "latest", "restore", "rollup", "stages", "surge")

P = TypeVar("P", bound=Parameters)


class Pipeline(NamedTuple, Generic[P]):
    """A pipeline: its name, a one-line summary, the class of its parameters, and the function that runs it."""

    name: str
    summary: str
    parameters: type[P]
    run: Callable[[SparkSession, P], Report]

    @property
    def description(self) -> str:
        """Return the module's docstring: meaning, guarantees, scale."""
        return (importlib.import_module(self.run.__module__).__doc__ or "").strip()


_found: dict[str, Pipeline[Any]] = {}


def pipeline(
    name: str, summary: str, parameters: type[P]
) -> Callable[[Callable[[SparkSession, P], Report]], Callable[[SparkSession, P], Report]]:
    """Register the decorated ``run(spark, parameters) -> Report`` under a name."""

    def register(run: Callable[[SparkSession, P], Report]) -> Callable[[SparkSession, P], Report]:
        _found[name] = Pipeline(name, summary, parameters, run)
        return run

    return register


def names() -> list[str]:
    """Return the names of all pipelines, sorted."""
    return list(NAMES)


def get(name: str) -> Pipeline[Any]:
    """Return the pipeline of that name.

    Raises:
        UnknownSettingError: there is none; the message lists the pipelines.
    """
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 1)
        hint = f", perhaps {near[0]}" if near else ""
        raise UnknownSettingError({"pipeline": f"no {name!r}{hint}; there are {', '.join(names())}"})
    importlib.import_module(f"{__name__}.{name}")
    return _found[name]
