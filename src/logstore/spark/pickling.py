"""Pickling for Spark's workers that gives a clear error on a worker without this package.

An object is pickled as the names of its module and class, and its state as bytes. The bytes are unpickled only
after the module was imported. The function that does so is pickled by value, so it runs on any Python. Where
logstore is missing, it raises an error of one sentence. Imports only what pickles.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark import cloudpickle


def unpacked(module: str, name: str, state: bytes) -> Any:
    """Unpickle an object of a class of this package; pickled by value, so it imports all that it uses."""
    import importlib
    import pickle
    import platform
    import sys

    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:  # AttributeError: another version, which lacks the class
        raise RuntimeError(
            f"the package logstore cannot be imported by Python {platform.python_version()} at {sys.executable} on "
            f"{platform.node()}, where Spark runs a task: {error}. Install the same wheel on every machine of the "
            "cluster (pip install 'logstore[spark]'), or name a Python that has it by PYSPARK_PYTHON"
        ) from None
    made = object.__new__(kind)
    made.__dict__.update(pickle.loads(state))
    return made


class PickledByName:
    """Mixin for subclasses of Spark's classes: pickles their objects as the module docstring says."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        kind = type(self)
        if kind.__module__.partition(".")[0] != "logstore":
            # A user's subclass, which only its own module can make.
            return super().__reduce_ex__(protocol)
        return unpacked, (kind.__module__, kind.__qualname__, cloudpickle.dumps(self.__getstate__()))


cloudpickle.register_pickle_by_value(sys.modules[__name__])
