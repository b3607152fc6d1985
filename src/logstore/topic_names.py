"""Topic names: which are valid, and which are reserved for the store.

Kafka's rule (`org.apache.kafka.common.internals.Topic`): 1 to 249 ASCII letters, digits, dots, underscores and
dashes. The names "." and ".." are refused, so a topic's directory is always inside the root. Names that differ
only in dots and underscores look the same in metrics, so only one of them may exist. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from logstore.errors import InvalidPartitionsError, InvalidTopicError

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SINKS: Final = "__logstore_sinks"
CLUSTER_METADATA: Final = "__cluster_metadata"

#: Topics that Kafka or the store keeps for internal use; listed only on request.
INTERNAL: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SINKS, CLUSTER_METADATA})

#: Limit of a topic's partitions: without it, a mistyped number could create millions of directories.
MOST_PARTITIONS: Final = 10_000

_LONGEST = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def check_name(name: object, existing: Iterable[str] = ()) -> str:
    """Return the name if a new topic may have it beside the ``existing`` names.

    Raises:
        InvalidTopicError: the name breaks the rule, or looks the same as another one.

    >>> check_name("flights.eu-1")
    'flights.eu-1'
    """
    name = check_is_name(name)
    if not name or len(name) > _LONGEST or name in (".", "..") or _LEGAL.fullmatch(name) is None:
        raise InvalidTopicError(
            f"topic {name[:300]!r}: a name has 1 to {_LONGEST} of a-z, A-Z, 0-9, dot, underscore and dash, "
            "and is neither '.' nor '..'"
        )
    flat = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == flat:
            raise InvalidTopicError(f"topic {name!r} looks the same as {other!r} in metrics; choose another name")
    return name


def check_names(names: Sequence[str], existing: Iterable[str]) -> None:
    """Check names as `check_name` does, for topics that are made together.

    Raises:
        InvalidTopicError: a name breaks the rule, is given twice, or looks the same as another one.
    """
    by_look = {look_of(other): other for other in existing}
    for name in names:
        check_name(name)
        alike = by_look.setdefault(look_of(name), name)
        if alike != name:
            check_name(name, [alike])
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidTopicError(f"topic {twice!r} is named twice")


def look_of(name: str) -> str:
    """Return what two names that look the same have in common: Kafka's metrics tell a dot from no underscore."""
    return name.replace(".", "_")


def check_is_name(name: object) -> str:
    """Return the name if it is a `str`.

    Raises:
        InvalidTopicError: the name is another object, such as a `Topic`.
    """
    if not isinstance(name, str):
        kind = type(name).__name__
        instead = "; give its name, topic.name" if hasattr(name, "name") else ""
        raise InvalidTopicError(f"a topic's name is a str, found {kind}{instead}")
    return name


def check_writable_by_users(name: str) -> None:
    """Refuse an internal topic of the store or of Kafka.

    Its reader is the store or a broker, and fails at a record that it cannot decode.

    Raises:
        InvalidTopicError: the topic is internal.
    """
    if name in INTERNAL:
        raise InvalidTopicError(f"topic {name!r} is the store's own; call commit(), or write to a topic of yours")


def check_partition_count(count: object) -> int:
    """Return the number if a topic may have so many partitions.

    Raises:
        InvalidPartitionsError: the number is not a whole number from 1 to `MOST_PARTITIONS`.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_PARTITIONS:
        raise InvalidPartitionsError(f"a topic has 1 to {MOST_PARTITIONS} partitions, found {count!r}")
    return count
