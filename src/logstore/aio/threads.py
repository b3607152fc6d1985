"""Threads and base classes of the asynchronous facades: how a blocking call is awaited.

A call that has begun in a thread cannot be withdrawn; its future can be cancelled. The result of such a call
is closed again (`Threads.make`) or stays where it was.
"""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Threads:
    """A few threads that make blocking calls for one store.

    Owns: the threads, which end when the store has been closed.
    """

    def __init__(self, count: int) -> None:
        self._pool = _pool(count)
        self._ended = False

    def start(self, work: Callable[..., R], *args: Any, **kwargs: Any) -> asyncio.Future[R]:
        """Start a call. Its future may be cancelled; a running call continues."""
        return asyncio.wrap_future(self._submit(work, *args, **kwargs))

    async def make(self, work: Callable[..., R], undo: Callable[[R], object], *args: Any, **kwargs: Any) -> R:
        """Make a call whose result needs an owner: after a cancellation ``undo`` gets the result."""
        making = self._submit(work, *args, **kwargs)
        try:
            return await asyncio.wrap_future(making)
        except asyncio.CancelledError:
            # Also undone if it was made a moment ago, and not yet returned.
            pool = _pool(1)
            pool.submit(_undo_when_made, making, undo)
            pool.shutdown(wait=False)
            raise

    def _submit(self, work: Callable[..., R], *args: Any, **kwargs: Any) -> Future[R]:
        # A call after the store was closed raises that error, in a thread for this call only.
        pool = _pool(1) if self._ended else self._pool
        taken = pool.submit(functools.partial(work, *args, **kwargs))
        if self._ended:
            pool.shutdown(wait=False)
        return taken

    def end(self) -> None:
        """End the threads once the calls already begun have returned."""
        self._ended = True
        self._pool.shutdown(wait=False)


def _undo_when_made(making: Future[R], undo: Callable[[R], object]) -> None:
    try:
        made = making.result()
    except BaseException:  # noqa: BLE001  nothing was made, and the caller is gone
        return
    undo(made)


def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="logstore-aio")


class AwaitAdvice:
    """Error messages for a program that has forgotten to await."""

    if not TYPE_CHECKING:
        # Hidden from type checkers, which must still report these as errors.
        def __iter__(self):
            raise TypeError(f"{self!r} is iterated with `async for`, not with `for`")

        def __enter__(self):
            raise TypeError(f"{self!r} is entered with `async with`, not with `with`")

        def __exit__(self, *exc_info):
            """Do nothing; without this method Python would raise its own error for `with`."""


class AsyncFacade(AwaitAdvice, Generic[S]):
    """A facade of one object of the store, named `sync`, whose calls block."""

    sync: S  #: the object of the store

    def __init__(self, sync: S, threads: Threads) -> None:
        self.sync = sync
        self._threads = threads

    async def _ready(self) -> S:
        return self.sync

    async def _call(self, work: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        return await self._threads.start(work, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<aio of {self.sync!r}>"


class SyncAttribute(Generic[R]):
    """An attribute of the store's object that a facade reads at once."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, facade: AsyncFacade[Any] | None, _owner: type | None = None) -> R:
        if facade is None:
            return self  # type: ignore[return-value]  # read from the class, for documentation
        found: R = getattr(facade.sync, self._name)
        return found


class LateFacade(AsyncFacade[S]):
    """A facade of an object that is made in a thread when it is awaited, or else first used."""

    def __init__(self, make: Callable[[], S], threads: Threads) -> None:
        self._make = make
        self._threads = threads

    @property
    def _is_made(self) -> bool:
        return "sync" in self.__dict__

    def __getattr__(self, name: str) -> Any:
        # Called for a missing attribute, and for a property that reads one.
        if self._is_made or (not hasattr(type(self), name) and name != "sync"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(f"{self!r} has no value before it is awaited; write `await` in front of it")

    def _get(self) -> S:
        """Return `sync`, made if needed. Blocks: for a thread."""
        if not self._is_made:
            self.sync = self._make()
        return self.sync

    async def _ready(self) -> S:
        return self.sync if self._is_made else await self._threads.start(self._get)

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._ready().__await__()
        return self


def document_as(twin: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the name, the docstring and the visible signature of its synchronous twin."""
    return functools.wraps(twin)  # type: ignore[return-value]  # which says less of it


def async_method(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return an asynchronous version of a method, which runs in a thread."""

    name = method.__name__

    @document_as(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # By its name: a topic of a cluster has another method than one of a store.
        made: R = await self._call(getattr(await self._ready(), name), *args, **kwargs)
        return made

    return call


def sync_property(attribute: property) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    """Return a method for a property whose value may have to be awaited."""
    get = attribute.fget
    assert get is not None
    name = get.__name__

    @document_as(get)
    async def call(self: Any) -> Any:
        return await self._call(getattr, await self._ready(), name)

    return call


class Pending(AwaitAdvice, Generic[T]):
    """An object that is opened when it is awaited, or by ``async with``, which also closes it."""

    def __init__(self, opening: Callable[[], Awaitable[T]], call: str) -> None:
        self._opening = opening
        self._call = call
        self._opened: Any = None

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise AttributeError(f"{self!r} is not open yet, and has no {name!r}: {self._advice}")

        def __getitem__(self, item):
            raise TypeError(f"{self!r} is not open yet: {self._advice}")

        def __aiter__(self):
            raise TypeError(f"{self!r} is not open yet: {self._advice}")

    @property
    def _advice(self) -> str:
        return f"write `await {self._call}(...)`, or `async with {self._call}(...) as ...:`"

    def __repr__(self) -> str:
        return f"<{self._call}(...) to be awaited>"

    def __await__(self) -> Generator[Any, None, T]:
        return self._opening().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._opening()
        return self._opened  # type: ignore[no-any-return]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._opened.__aexit__(kind, error, traceback)


class Closing(ABC):
    """An object that is closed at the end of an ``async with``."""

    @abstractmethod
    async def close(self) -> None:
        """Close the object and release what it holds."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_exc_info: object) -> None:
        await self.close()
