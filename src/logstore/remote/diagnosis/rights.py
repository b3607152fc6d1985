"""Rights of this client by the brokers' ACLs, and the line of ``kafka-acls.sh`` that adds a missing one.

Brokers tell which operations they permit, as bits by Kafka's numbers of operations (KIP-430). Nothing is tried that
could change a topic or a group. Which operations a purpose needs is Kafka's table of protocols and resources.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from logstore.client.backend.findings import Finding, Level
from logstore.config.remote import WireConfig
from logstore.config.security import OAUTHBEARER, login_of
from logstore.errors import MissingLibraryError


class Operation(enum.IntEnum):
    """Kafka's operations on a resource, by their numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11

    @property
    def word(self) -> str:
        """The name as ``kafka-acls.sh`` takes it, such as ``DescribeConfigs``."""
        return self.name.title().replace("_", "")


class Purpose(enum.StrEnum):
    """What a client is to do with topics and groups."""

    PRODUCE = "produce"
    CONSUME = "consume"
    MANAGE = "manage"  #: create, describe, alter and delete topics


#: Kind of a resource -> purpose -> the operations that it needs.
_NEEDED: dict[str, dict[Purpose, tuple[Operation, ...]]] = {
    "topic": {
        Purpose.PRODUCE: (Operation.WRITE,),
        Purpose.CONSUME: (Operation.READ,),
        Purpose.MANAGE: (Operation.DELETE, Operation.ALTER, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    },
    "group": {Purpose.CONSUME: (Operation.READ,)},
    "cluster": {Purpose.MANAGE: (Operation.CREATE, Operation.DESCRIBE)},
}

#: What a broker sends where it does not tell the operations.
_NOT_TOLD = -(1 << 31)


class Resource(NamedTuple):
    """What an ACL is about, as ``kafka-acls.sh`` names it."""

    kind: str  #: ``topic``, ``group`` or ``cluster``
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else f"the {self.kind}"

    def needed(self, purposes: Iterable[Purpose]) -> tuple[Operation, ...]:
        """Return the operations on it that purposes need."""
        table = _NEEDED[self.kind]
        return tuple(dict.fromkeys(each for purpose in purposes for each in table.get(purpose, ())))


def missing(needed: Iterable[Operation], permitted: int) -> list[Operation]:
    """Return the operations that are not among the permitted ones, as a broker tells them.

    >>> [each.word for each in missing([Operation.READ, Operation.DESCRIBE_CONFIGS], 1 << 3)]
    ['DescribeConfigs']
    """
    return [] if permitted == _NOT_TOLD else [each for each in needed if not permitted >> each & 1]


def lacking(
    resource: Resource, operations: Sequence[Operation], config: WireConfig, principal: str
) -> Iterator[Finding]:
    """Yield the finding for operations that are missing on a resource, if there are some."""
    if operations:
        words = " and ".join(each.word for each in operations)
        yield Finding(
            Level.PROBLEM,
            f"missing-acl-{resource.kind}",
            str(resource),
            f"the brokers' ACLs do not permit {words} to {principal}",
            f"have an administrator run: {acl_line(resource, operations, config, principal)}",
        )


def acl_line(resource: Resource, operations: Iterable[Operation], config: WireConfig, principal: str) -> str:
    """Return the command that permits operations on a resource, as an administrator runs it in a shell."""
    is_plain = config.security_protocol == "plaintext"
    words = ["kafka-acls.sh", "--bootstrap-server", config.bootstrap_servers.replace(" ", "")]
    words += [] if is_plain else ["--command-config", "ADMIN.properties"]
    words += ["--add", "--allow-principal", principal]
    for each in operations:
        words += ["--operation", each.word]
    words += [f"--{resource.kind}", *([resource.name] if resource.name else [])]
    return shlex.join(words)


def principal_of(config: WireConfig) -> str:
    """Return as whom brokers know this client, by Kafka's defaults.

    That is the user of the login, or the subject of the client's certificate. SUBJECT stands for what only the
    brokers know: the subject of a token, or of a certificate that cannot be read here.
    """
    login = login_of(config, has_token=config.sasl_mechanism == OAUTHBEARER)
    if login is not None:
        name = "SUBJECT" if login.mechanism == OAUTHBEARER else login.username.reveal()
    elif config.security_protocol == "ssl":
        name = _subject_of(config)
    else:
        name = "ANONYMOUS"
    return f"User:{name}"


def _subject_of(config: WireConfig) -> str:
    from logstore.remote.security.keystores import key_pair

    try:
        own = key_pair(config)
        from cryptography import x509
    except (MissingLibraryError, ImportError):
        return "SUBJECT"
    if own is None:
        return "ANONYMOUS"
    return x509.load_pem_x509_certificates(own.chain.encode("ascii"))[0].subject.rfc4514_string()
