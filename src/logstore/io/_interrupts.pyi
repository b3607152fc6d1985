"""Steps that a signal cannot interrupt half way."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar, final

_P = ParamSpec("_P")
_R = TypeVar("_R")

class _Lock(Protocol):
    def acquire(self, blocking: bool = True, /) -> bool: ...
    def release(self) -> None: ...

def shielded(step: Callable[_P, _R], *args: _P.args, **options: _P.kwargs) -> _R:
    """Call ``step``; an exception that a signal handler raises meanwhile is raised after its end."""

def made(make: Callable[[], _R], unmake: Callable[[_R], object]) -> _R:
    """Call ``make`` as `shielded` does; ``unmake`` releases its result if the caller does not get it."""

def interrupted() -> bool:
    """Return whether a handler has raised in the main thread while it waits for a step of `shielded`."""

def in_step() -> bool:
    """Return whether this thread makes a step of `shielded`: no signal ends its waits."""

def step_interrupted() -> bool:
    """Return whether this thread makes a step of `shielded`, and a handler has raised in the main thread."""

def undone(undo: Callable[[list[Any]], object]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorate a call: if an exception other than `LogstoreError` ends it, what it `kept` is passed to ``undo``."""

def kept() -> list[Any]:
    """Return the list of what the innermost call of `undone` in this thread keeps."""

def guarded(step: Callable[[], _R], cleanup: Callable[[], object]) -> _R:
    """Call ``step``, then ``cleanup``, even if the step raised; ``cleanup`` may be called twice."""

def together(*steps: Callable[[], object]) -> None:
    """Call compiled steps, such as list methods and partial calls of setattr, without an interrupt in between."""

def tried(lock: _Lock, wait: bool, step: Callable[[], _R], otherwise: _R) -> _R:
    """Call ``step`` under a lock; without ``wait``, return ``otherwise`` if another thread holds it."""

def locked(lock: _Lock, settle: Callable[[], object], step: Callable[..., _R], *args: Any) -> _R:
    """Call ``step`` under a lock; if it was interrupted, call ``settle`` to repair the state."""

@final
class held:
    """``with held(lock):`` holds a lock that is released after the block, wherever the block was interrupted."""

    def __new__(
        cls,
        lock: _Lock,
        *,
        refusal: Callable[[], Exception] | None = None,
        check: Callable[[], object] | None = None,
    ) -> held: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class Condition(threading.Condition):
    """Condition whose lock and waits survive an interrupt: `threading.Condition` has bytecodes inside."""

    def __init__(self) -> None: ...
    def __exit__(self, *exc_info: object) -> None: ...
