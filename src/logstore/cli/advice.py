"""Advice of error messages for callers in Python, translated to commands."""

from __future__ import annotations

import re

#: Phrase for Python -> phrase for a command. Phrases exactly as in the sources, longer ones first.
PHRASES: tuple[tuple[str, str], ...] = (
    ("create it with create_topic", "create it with `logstore topic create`"),
    (
        "there is no store here; open it with create=True to begin one",
        "there is no store here; `logstore topic create` begins one",
    ),
    ("there is no log here; open it with create=True to begin one", "there is no log here; check the path"),
    (
        "Kafka wrote this directory; open it with read_only=True, or take it over with adopt",
        "Kafka wrote this directory; commands that only read it work, and `logstore adopt` takes it over",
    ),
    (
        "Kafka wrote this log; open it with read_only=True, or adopt its root first",
        "Kafka wrote this log; commands that only read it work, and `logstore adopt` takes its root over",
    ),
    (": stop it, or open the log with read_only=True", ": stop it; commands that only read work beside it"),
    (
        "the root cannot be written; open the log with read_only=True",
        "the root cannot be written; commands that only read it work",
    ),
    (
        " or open the log with read_only=True to save what is whole",
        " or save what is whole with `logstore export --skip-damaged`",
    ),
    (', or scan with on_damage="skip"', ", or with --skip-damaged"),
    ("give drop_keyless=True (--drop-keyless) to lose them", "give --drop-keyless to lose them"),
    (" or logstore.rebuild: the topics' own", ": the topics' own"),
    (
        " or logstore.rebuild (where Kafka has only formatted the directory, take it over with adopt)",
        " (where Kafka has only formatted the directory, take it over with `logstore adopt`)",
    ),
    (
        "a directory of Kafka's is taken over with adopt",
        "a directory of Kafka's is taken over with `logstore adopt`",
    ),
    ("the store has its catalogue, and it is whole; open it", "the store has its catalogue, and it is whole"),
    ("this is a store already; open it", "this is a store already"),
    ("or hand back with leave_stray=True", "or hand back with --leave-stray"),
    ("open the store, call housekeep(), and close it, which decides it", "`logstore housekeep` decides it"),
    (
        "else open it for writing once (or let Kafka open it), which finishes the swap",
        "else `logstore housekeep` (or Kafka, when it opens it) finishes the swap",
    ),
    (
        "open it for writing, which recovers it or says what is damaged",
        "`logstore housekeep` recovers it or says what is damaged",
    ),
    ("; close the log and open it again", "; run the command again"),
    ("; close it and open it again", "; run the command again"),
    ("keep others with Store.snapshot", "keep others with `logstore snapshot`"),
)

_BEGIN_AGAIN = re.compile(r"with (logstore\.Log\.open\((['\"]).*?\2\)\.close\(\))")


def of_a_command(message: str) -> str:
    """Return a message with its advice translated to the command line.

    >>> of_a_command("there is no topic 'x' in this store (it has: none); create it with create_topic")
    "there is no topic 'x' in this store (it has: none); create it with `logstore topic create`"
    """
    for said, shown in PHRASES:
        message = message.replace(said, shown)
    return _BEGIN_AGAIN.sub(r"""with `python -c "import logstore; \1"`""", message)
