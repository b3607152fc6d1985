"""Durations, sizes and times as people write them: ``7d``, ``10GiB``, ``-2h``, ``2026-11-02 10:00``.

Settings, the command line, options of Spark and calls in Python use this parser, so a word means the same
everywhere. It defines no setting. No I/O except the machine's time zones. Any thread may use it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo

_WORD = re.compile(r"([0-9]+)(?:\.([0-9]+))?\s*([A-Za-z]*)")

#: A fraction of a millisecond counts as a whole one: a duration that is not zero never becomes zero.
_UNITS_US = {
    **dict.fromkeys(("us",), 1),
    **dict.fromkeys(("", "ms"), 1_000),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000_000),
}

#: Powers of 1024, also without the i, as in Spark and Java.
_UNITS_BYTES = {"": 1, "b": 1} | {
    letter + rest: 1024**power for power, letter in enumerate("kmgtp", 1) for rest in ("", "b", "ib")
}


def is_in_words(value: object) -> bool:
    """Return whether a value can only be a number with a unit after it.

    >>> is_in_words("7d"), is_in_words("7"), is_in_words(7)
    (True, False, False)
    """
    return isinstance(value, str) and value.strip()[-1:].isalpha()


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration: a number followed by ms, s, m, h, d or w; by default ms.

    A day has 24 hours. A fraction of a millisecond counts as a whole one.

    >>> duration_ms("7d"), duration_ms("1.5 hours"), duration_ms("250")
    (604800000, 5400000, 250)

    Raises:
        ValueError: the text is not a duration.
    """
    return -(-_scaled(text, _UNITS_US, "a time such as 7d, 12h, 15m, 30s or 500ms") // 1_000)


def size_bytes(text: str) -> int:
    """Return the bytes of a size: a number followed by KiB, MiB, GiB, TiB or PiB; by default bytes.

    The units are powers of 1024, also if written as k or kB.

    >>> size_bytes("10GiB"), size_bytes("256m"), size_bytes("4096")
    (10737418240, 268435456, 4096)

    Raises:
        ValueError: the text is not a size.
    """
    return _scaled(text, _UNITS_BYTES, "a number of bytes, such as 268435456, 256MiB or 10GiB")


def _scaled(text: str, units: dict[str, int], expected: str) -> int:
    """Return a number with a unit as a whole number of the smallest unit, rounded up; else raise ValueError."""
    found = _WORD.fullmatch(text.strip())
    unit = None if found is None else units.get(found[3].lower())
    if found is None or unit is None or (found[2] and not found[3]):
        raise ValueError(f"expected {expected}, found {text!r}{_hint(found, units)}")
    fraction = found[2] or ""
    divisor: int = 10 ** len(fraction)
    return -(-int(found[1] + fraction) * unit // divisor)


def _hint(found: re.Match[str] | None, units: dict[str, int]) -> str:
    """Return what was probably meant if the unit is misspelt."""
    import difflib  # large, and only errors need it

    near = [] if found is None else difflib.get_close_matches(found[3].lower(), filter(None, units), 1)
    if found is None or not near:
        return ""
    number = found[1] + (f".{found[2]}" if found[2] else "")
    return f"; perhaps {number} {near[0]}"


def time_ms(text: str, now_ms: int, zone: tzinfo | None = None) -> int:
    """Return milliseconds since 1970 from a number of them, an ISO 8601 date or time, or a duration ago: ``-2h``.

    A date or time without a zone is in ``zone``, by default UTC.

    >>> time_ms("-2h", 10_000_000), time_ms("1970-01-02", 0), time_ms("1970-01-01 02:00+01:00", 0)
    (2800000, 86400000, 3600000)

    Raises:
        ValueError: the text is none of them.
    """
    from datetime import UTC, datetime  # it would slow down `import logstore`

    word = text.strip()
    if word.isascii() and word.isdigit():
        return int(word)
    try:
        if word.startswith("-") and is_in_words(word):
            return now_ms - duration_ms(word[1:])
        found = datetime.fromisoformat(word)
        moment = found if found.tzinfo is not None else found.replace(tzinfo=zone or UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"expected milliseconds, a date like 2026-11-21T10:00:00Z, or -2h; found {text!r}"
        ) from None


def zone_of(name: str) -> tzinfo:
    """Return the time zone named, such as Europe/Berlin, UTC or +02:00; ``local`` is the machine's.

    Raises:
        ValueError: there is no such zone.
    """
    import os
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    word = name.strip()
    if word.lower() == "local":
        word = os.environ.get("TZ", "").lstrip(":")
        if not word:
            try:
                with open("/etc/localtime", "rb") as file:
                    return ZoneInfo.from_file(file)
            except (OSError, ValueError):
                return UTC  # as the C library does without one
    if word.upper() in ("Z", "UTC"):
        return UTC  # `ZoneInfo` would fail if no time zones are installed
    try:
        if word[:1] in ("+", "-"):
            found = datetime.fromisoformat(f"1970-01-01T00:00{word}").tzinfo
            assert found is not None
            return found
        return ZoneInfo(word)
    except (ValueError, OSError, LookupError):
        raise ValueError(
            f"expected a time zone such as Europe/Berlin, UTC, +02:00 or local, found {name!r}"
        ) from None
