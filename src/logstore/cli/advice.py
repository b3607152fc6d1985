"""Advice of error messages for callers in Python, translated to commands."""

from __future__ import annotations

import re

#: Phrase for Python -> phrase for a command. Phrases exactly as in the sources, longer ones first.
PHRASES: tuple[tuple[str, str], ...] = (
    ("create it with create_topic()", "create it with `logstore topic create`"),
    ("there with create_topic() first", "there with `logstore topic create` first"),
    (", or store.create_topic(NAME, partitions=N)", ""),
    (", or by logstore.open(PATH).create_topic(NAME)", ""),
    ("logstore.open(path, create=True) creates one", "`logstore topic create` creates one"),
    ("; Log.open(path, create=True) creates one", "; check the path"),
    (
        "open it with read_only=True, or call adopt_kafka_directory() for its root first",
        "commands that only read it work, and `logstore adopt` takes its root over",
    ),
    (
        "open it with read_only=True, or call adopt_kafka_directory()",
        "commands that only read it work, and `logstore adopt` takes it over",
    ),
    ("and adopt_kafka_directory() takes over", "and `logstore adopt` takes over"),
    ("the directory, call adopt_kafka_directory())", "the directory, `logstore adopt` takes it over)"),
    (": stop it, or open the log with read_only=True", ": stop it; commands that only read work beside it"),
    (
        ", or open the log with read_only=True to save what is whole",
        ", or save what is whole with `logstore export --skip-damaged`",
    ),
    ("written; open the log with read_only=True", "written; commands that only read it work"),
    (', or scan with on_damage="skip"', ", or with --skip-damaged"),
    ("give drop_keyless=True (--drop-keyless) to lose them", "give --drop-keyless to lose them"),
    (" or logstore.rebuild() (where", " (where"),
    (" or logstore.rebuild(): the topics", ": the topics"),
    ("; share that Log, or open this one with read_only=True", ""),
    ("; share that Store, or open this one with read_only=True", ""),
    ("; close() this reader, and call Log.open() again if the topic was made again", "; run the command again"),
    ("; call scan() again", "; run the command again"),
    ("; call store.topic() again", "; run the command again"),
    ("; call logstore.open() again with disk_budget=", "; give one with --set logstore.disk.budget=SIZE"),
    ("free space and call flush(), do not append", "free space, do not append"),
    ("; call commit(), or write to a topic of yours", "; set offsets with `logstore offsets set`"),
    ("; open it with logstore.open()", ""),
    ("or call release_to_kafka(leave_stray=True)", "or give --leave-stray"),
    ("open the store, call housekeep(), and close it, which decides it", "`logstore housekeep` decides it"),
    ("else open it once with logstore.open()", "else run `logstore housekeep`"),
    (
        "call Log.open() to write, which recovers it or names the damage",
        "`logstore housekeep` recovers it or names the damage",
    ),
    ("; call close(), then Log.open() again", "; run the command again"),
    ("call Store.snapshot() again", "run `logstore snapshot` again"),
    ("keep others with Store.snapshot()", "keep others with `logstore snapshot`"),
)

_BEGIN_AGAIN = re.compile(r"with (logstore\.Log\.open\((['\"]).*?\2\)\.close\(\))")


def of_a_command(message: str) -> str:
    """Return a message with its advice translated to the command line.

    >>> of_a_command("topic 'x' does not exist in this store (it has: none); create it with create_topic()")
    "topic 'x' does not exist in this store (it has: none); create it with `logstore topic create`"
    """
    for said, shown in PHRASES:
        message = message.replace(said, shown)
    return _BEGIN_AGAIN.sub(r"""with `python -c "import logstore; \1"`""", message)
