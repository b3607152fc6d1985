"""Every message in every version: kio reads what we write, we read what kio writes, and the bytes are the same."""

from __future__ import annotations

from random import Random

import pytest

from codegen import table
from tests.protocol import made, oracle

VALUES = 8


@pytest.mark.parametrize("message", made.TABLE, ids=made.NAMES)
def test_kio_and_we_read_and_write_the_same(message: table.Message) -> None:
    kind = made.python_class(message)
    for version in range(message.versions.first, message.versions.last + 1):
        rng = Random(f"{message.name} {version}")
        for value in [kind(), *(made.value_of(message, version, rng) for _ in range(VALUES))]:
            data = value.encode(version)
            theirs = oracle.decode(message.key, message.is_request, version, data)
            assert oracle.differences(value, theirs) == [], f"version {version}"
            assert oracle.encode(theirs) == data, f"version {version}"
            assert kind.decode(data, version) == value, f"version {version}"


def test_the_table_has_every_version_that_kio_has() -> None:
    """A range that we had cut short would go unnoticed above."""
    for message in made.TABLE:
        for version in (message.versions.first - 1, message.versions.last + 1):
            with pytest.raises(Exception, match=r"Failed mapping"):
                oracle.decode(message.key, message.is_request, version, b"")
