"""What every asynchronous twin stands on: a few threads for one store, and how a blocking call is awaited.

A call that has begun in a thread cannot be taken back; its future can be cancelled. What such a call
would have handed over is given back (`Threads.make`) or stays where it was.
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
        """Begin a call. Its future may be cancelled; the call, once it runs, goes on."""
        return asyncio.wrap_future(self._submit(work, *args, **kwargs))

    async def make(self, work: Callable[..., R], undo: Callable[[R], object], *args: Any, **kwargs: Any) -> R:
        """Make a call whose result has to be given back: if nobody is there to take it, ``undo`` gets it."""
        making = self._submit(work, *args, **kwargs)
        try:
            return await asyncio.wrap_future(making)
        except asyncio.CancelledError:
            # Also one that was made a moment ago, and was not handed over yet.
            pool = _pool(1)
            pool.submit(_give_back, making, undo)
            pool.shutdown(wait=False)
            raise

    def _submit(self, work: Callable[..., R], *args: Any, **kwargs: Any) -> Future[R]:
        # What is called after the store was closed is told so, in a thread for that call alone.
        pool = _pool(1) if self._ended else self._pool
        taken = pool.submit(functools.partial(work, *args, **kwargs))
        if self._ended:
            pool.shutdown(wait=False)
        return taken

    def end(self) -> None:
        """Let the threads end, once they have done what was begun."""
        self._ended = True
        self._pool.shutdown(wait=False)


def _give_back(making: Future[R], undo: Callable[[R], object]) -> None:
    try:
        made = making.result()
    except BaseException:  # noqa: BLE001  there is nothing to give back, and nobody to tell
        return
    undo(made)


def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="logstore-aio")


class Worded:
    """Says what is to be written where a program forgot that it is asynchronous."""

    if not TYPE_CHECKING:
        # Hidden from type checkers, to which these must stay errors.
        def __iter__(self):
            raise TypeError(f"{self!r} is iterated with `async for`, not with `for`")

        def __enter__(self):
            raise TypeError(f"{self!r} is entered with `async with`, not with `with`")

        def __exit__(self, *exc_info):
            """Never called; without it Python has words of its own for `with`."""


class AsyncFacade(Worded, Generic[S]):
    """Stands for one object of the store, named `sync`, whose calls block."""

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


class Late(AsyncFacade[S]):
    """A twin of what is made in a thread: when it is awaited, or else when it is first used."""

    def __init__(self, make: Callable[[], S], threads: Threads) -> None:
        self._make = make
        self._threads = threads

    @property
    def _is_made(self) -> bool:
        return "sync" in self.__dict__

    def __getattr__(self, name: str) -> Any:
        # Called for what is not there, and for a property that asks for what is not there.
        if self._is_made or (not hasattr(type(self), name) and name != "sync"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(f"nothing is known of {self!r} before it is awaited: write `await` in front of it")

    def _get(self) -> S:
        """As `sync`, made if it is not yet. Blocks: for a thread."""
        if not self._is_made:
            self.sync = self._make()
        return self.sync

    async def _ready(self) -> S:
        return self.sync if self._is_made else await self._threads.start(self._get)

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._ready().__await__()
        return self


def document_as(twin: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the name, the text and, for who looks, the signature of its twin."""
    return functools.wraps(twin)  # type: ignore[return-value]  # which says less of it


def async_method(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """A method of the twin, made in a thread."""

    @document_as(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        made: R = await self._call(method, await self._ready(), *args, **kwargs)
        return made

    return call


def sync_property(attribute: property) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    """A property whose value may have to be waited for: a method here."""
    get = attribute.fget
    assert get is not None

    @document_as(get)
    async def call(self: Any) -> Any:
        return await self._call(get, await self._ready())

    return call


class Pending(Worded, Generic[T]):
    """Something that is opened when it is awaited, or entered by ``async with`` and closed behind it."""

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
    """What is closed at the end of an ``async with``."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of what is held."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_exc_info: object) -> None:
        await self.close()
