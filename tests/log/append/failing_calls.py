"""A log of small segments on which each call of a file fails once, as an append makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from logstore import Log
from logstore.errors import StorageFailedError
from logstore.records import AppendResult
from logstore.testing import ManualClock, SimDisk
from tests.log.logs import NOW_MS, values_of

_SMALL: Final = {"segment_bytes": 420}


def each_call_fails(
    error: int, begin: Callable[[Log], object], act: Callable[[Log], Any]
) -> Iterator[tuple[Log, Any, Any]]:
    """Begin a log, kill its process, and act on the log of the next one, each time with another call that fails.

    Yields the log, its files, on which the fault may still stand, and the result. It makes more than ten calls.
    """
    calls, number = 0, 0
    while number <= calls:
        disk = SimDisk(1)
        with _opened(disk) as log:
            begin(log)
        files = disk.kill()
        log = _opened(files)
        began = files.operations
        if number == 0:
            act(log)
            calls = files.operations - began
            assert calls > 10
            log.close()
        else:
            files.fail("change", number, errno=error)
            yield log, files, act(log)
        number += 1


def check_kept(log: Log, files: Any, results: list[Any]) -> None:
    """What was called written is in the log when it is opened again, and nothing twice or torn.

    The log began with ``first``; then each result is that of a batch whose value is its number.
    """
    files.heal()
    try:
        log.close()
    except StorageFailedError:
        pass
    written = [b"%d" % n for n, result in enumerate(results) if isinstance(result, AppendResult)]
    found = reopened_values(files)
    assert found[:1] == [b"first"]
    assert set(written) <= set(found)
    assert found[1:] == sorted(set(found[1:]), key=int)


def reopened_values(files: Any) -> list[bytes]:
    """Return the values in the log as another process finds it after a kill."""
    with _opened(files.kill()) as log:
        return values_of(log)


def _opened(files: Any) -> Log:
    return Log.open("/data/t-0", _SMALL, files=files, clock=ManualClock(NOW_MS))
