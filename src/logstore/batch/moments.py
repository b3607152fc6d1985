"""Times that bound a read: an instant, or a duration before now."""

from __future__ import annotations

import datetime

from logstore.batch._encode import timestamp_of
from logstore.clock import Clock
from logstore.config.quantities import time_ms
from logstore.errors import InvalidTimestampError

Time = int | datetime.datetime

#: As `Time`, a duration before now (a timedelta of either sign, or a text such as ``-2h``), or an instant as text.
When = Time | datetime.timedelta | str


def moment_of(when: When, clock: Clock) -> int:
    """Return milliseconds since 1970 of an instant, or of now less a duration; 0 if the duration is too long.

    >>> from logstore.clock import SYSTEM_CLOCK
    >>> moment_of(5, SYSTEM_CLOCK), moment_of("1970-01-01T02:00:00+01:00", SYSTEM_CLOCK)
    (5, 3600000)

    Raises:
        InvalidTimestampError: the text is no instant and no duration, or the instant is before 1970.
        RecordTypeError: ``when`` has another type, or is a datetime without a time zone.
    """
    if isinstance(when, datetime.timedelta):
        return max(clock.now_ms() - abs(when) // datetime.timedelta(milliseconds=1), 0)
    if not isinstance(when, str):
        return timestamp_of(when)
    try:
        found = time_ms(when, clock.now_ms())
    except ValueError as error:
        raise InvalidTimestampError(f"a time in words: {error}") from None
    return max(found, 0) if when.lstrip().startswith("-") else timestamp_of(found)
