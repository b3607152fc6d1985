"""What Spark pickles to its workers, in a form that a worker without this package can speak up about.

An object is pickled as the names of its module and class, and its state as bytes that nobody opens before the
module was imported. The function that does so is pickled by value, so it runs wherever Python does, and where
there is no logstore it says that in one sentence. Imports nothing but what pickles.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark import cloudpickle

__all__ = ["Travelling"]


def unpacked(module: str, name: str, state: bytes) -> Any:
    """Make an object of a class of this package; pickled by value, so it imports all that it uses."""
    import importlib
    import pickle
    import platform
    import sys

    try:
        home = importlib.import_module(module)
    except ImportError as error:
        raise RuntimeError(
            f"logstore cannot be imported by Python {platform.python_version()} at {sys.executable} on "
            f"{platform.node()}, where Spark runs a task: {error}. Install the same wheel on every machine of the "
            "cluster (pip install 'logstore[spark]'), or name a Python that has it by PYSPARK_PYTHON"
        ) from None
    made = object.__new__(getattr(home, name))
    found = pickle.loads(state)
    if hasattr(made, "__setstate__"):
        made.__setstate__(found)
    else:
        made.__dict__.update(found)
    return made


class Travelling:
    """Beside a class of Spark: its objects are pickled as the head of the module says."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        kind = type(self)
        if kind.__module__.partition(".")[0] != "logstore":
            # Somebody's own subclass, which their module alone can make.
            return super().__reduce_ex__(protocol)
        return unpacked, (kind.__module__, kind.__qualname__, cloudpickle.dumps(self.__getstate__()))


cloudpickle.register_pickle_by_value(sys.modules[__name__])
