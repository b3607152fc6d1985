"""Times as a caller may give them where a read begins or ends: an instant, or a while before now."""

from __future__ import annotations

import datetime

from logstore.batch._encode import timestamp_of
from logstore.clock import Clock
from logstore.config.quantities import time_ms
from logstore.errors import InvalidTimestampError

Time = int | datetime.datetime

#: As `Time`, or so long ago: a timedelta of either sign, or a text such as ``-2h``. Or the text of an instant.
When = Time | datetime.timedelta | str

_MILLISECOND = datetime.timedelta(milliseconds=1)


def moment_of(when: When, clock: Clock) -> int:
    """Milliseconds since 1970 of an instant, or of so long ago; more than since 1970 is 0.

    >>> from logstore.clock import SYSTEM_CLOCK
    >>> moment_of(5, SYSTEM_CLOCK), moment_of("1970-01-01T02:00:00+01:00", SYSTEM_CLOCK)
    (5, 3600000)

    Raises:
        InvalidTimestampError: a text that is neither, or an instant before 1970.
        RecordTypeError: another type, or a datetime without a time zone.
    """
    if isinstance(when, datetime.timedelta):
        return max(clock.now_ms() - abs(when) // _MILLISECOND, 0)
    if not isinstance(when, str):
        return timestamp_of(when)
    try:
        found = time_ms(when, clock.now_ms())
    except ValueError as error:
        raise InvalidTimestampError(f"a time in words: {error}") from None
    return max(found, 0) if when.lstrip().startswith("-") else timestamp_of(found)
