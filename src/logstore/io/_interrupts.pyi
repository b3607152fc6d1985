"""Steps that a signal cannot cut in half."""

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
    """Call ``step``; what a signal handler raises meanwhile is raised once it has ended."""

def made(make: Callable[[], _R], unmake: Callable[[_R], object]) -> _R:
    """As `shielded`, for a step whose result has to be given back by ``unmake`` if the caller does not get it."""

def interrupted() -> bool:
    """Whether the main thread waits for a step that `shielded` runs, and a handler has raised something there."""

def guarded(step: Callable[[], _R], cleanup: Callable[[], object]) -> _R:
    """Call ``step``, then ``cleanup``, however the step has ended; ``cleanup`` may be called twice."""

def together(*steps: Callable[[], object]) -> None:
    """Call compiled steps, such as methods of lists and partial calls of setattr, with nothing in between."""

def tried(lock: _Lock, wait: bool, step: Callable[[], _R], otherwise: _R) -> _R:
    """Call ``step`` under a lock; without ``wait``, ``otherwise`` is returned if another thread has it."""

def locked(lock: _Lock, settle: Callable[[], object], step: Callable[..., _R], *args: Any) -> _R:
    """Call ``step`` under a lock; one that ends by no error of ours was cut off, and ``settle`` puts things right."""

@final
class held:
    """``with held(lock):`` holds a lock that is free again after the block, wherever the block was cut off."""

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
    """A condition whose lock and waits an interrupt leaves whole: `threading.Condition` has bytecodes inside."""

    def __init__(self) -> None: ...
    def __exit__(self, *exc_info: object) -> None: ...
