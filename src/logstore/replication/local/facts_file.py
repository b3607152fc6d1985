"""The file ``logstore.facts`` in a store's root: the facts of a registry that is kept there, for one node.

Only this module knows the bytes. It is three lines, replaced as a whole: write beside, sync, rename, sync the
directory. So after a crash either the facts before a commit or those after it are there, all of them::

    logstore facts 1
    {"created": 12, "numbers": {"/q": 3}, "facts": {"/cluster/id": [0, 1, "{...}"]}}
    crc32c 1f9a2b44

A fact is its version, the number of its creation, and its value, a character for each byte (latin-1). ``created``
is the newest such number, and ``numbers`` the next one of the sequential facts below a path; both rise for ever, so
a fact that is deleted and made again after a restart is another one. Ephemeral facts are not in the file: their
sessions end with the process. The third line is the CRC-32C of the two above it, newlines included: a file that was
cut, changed or edited is refused, and never read in part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from logstore.errors import NotALogError
from logstore.log.directory.files import Directory
from logstore.log.formats.checkpoints import with_crc_line, without_crc_line
from logstore.replication.api import Fact, check_path
from logstore.store.catalog.layout import FACTS_FILE

_HEAD = b"logstore facts "
_VERSION = b"1"


class KeptFacts(NamedTuple):
    """The contents of the file."""

    facts: Mapping[str, Fact]
    numbers: Mapping[str, int]  #: parent -> the next number of a sequential fact
    created: int  #: the newest number of a creation

    @classmethod
    def load(cls, root: Directory) -> KeptFacts:
        """Load the file of a root; no facts if there is none.

        Raises:
            NotALogError: the file is damaged, or of a later version. Nothing of it is used.
            StorageError: it cannot be read.
        """
        data = root.read(FACTS_FILE)
        if data is None:
            return cls({}, {}, 0)
        try:
            return cls.of_bytes(data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise NotALogError(
                f"{FACTS_FILE} cannot be used ({error}): restore it from a copy of this directory; without one, "
                "export the records, and make the topics again in a new directory",
                path=root.join(FACTS_FILE),
            ) from error

    def save(self, root: Directory) -> None:
        """Replace the file; durable on return. After an error it is the old one or the new one."""
        root.replace(FACTS_FILE, self.to_bytes(), durable=True)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        contents = {
            "created": self.created,
            "numbers": dict(self.numbers),
            "facts": {
                path: [fact.version, fact.created, fact.value.decode("latin-1")]
                for path, fact in self.facts.items()
            },
        }
        return with_crc_line(b"%b%b\n%b\n" % (_HEAD, _VERSION, json.dumps(contents).encode()))

    @classmethod
    def of_bytes(cls, data: bytes) -> KeptFacts:
        """Return what the bytes of a file hold.

        Raises:
            ValueError, KeyError, TypeError, AttributeError, RecursionError: they are no such file.
        """
        lines = data.split(b"\n")
        if not data.startswith(_HEAD) or len(lines) != 4 or lines[3]:
            raise ValueError("the file is cut, or another program's")
        if without_crc_line(data) is None:
            raise ValueError("the checksum disagrees")
        if lines[0] != _HEAD + _VERSION:
            raise ValueError(
                f"the file is of version {lines[0][len(_HEAD) :].decode(errors='replace')}, this one knows 1"
            )
        found = json.loads(lines[1])
        facts = {}
        for path, (version, created, value) in found["facts"].items():
            check_path(path)
            facts[path] = Fact(path, value.encode("latin-1"), int(version), int(created))
        numbers = {str(parent): int(number) for parent, number in found["numbers"].items()}
        return cls(facts, numbers, int(found["created"]))
