"""PySpark's functions over columns, imported when the first one is used.

Modules of pipelines import this one instead of PySpark's: they are listed and described where PySpark is missing.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)  # Python looks for some in any module, also without PySpark
    from pyspark.sql import functions

    return getattr(functions, name)
