"""``logstore doctor``: problems of a directory or of a cluster, and how to fix them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from logstore.cli import output
from logstore.cli.advice import of_a_command
from logstore.cli.store_option import StoreOptions, directory_argument, json_option, reach_options
from logstore.client.backend.findings import Finding, Level
from logstore.log.directory.files import Directory, partitions_below
from logstore.store.admin.diagnosis import diagnose


@click.command()
@click.option("--deep", is_flag=True, help="Compare the checksum of every batch: reads everything.")
@click.option("-a", "--all", "everything", is_flag=True, help="Print what is in order, too.")
@click.option(
    "-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Check this client's rights on a topic."
)
@click.option("-g", "--group", "groups", multiple=True, metavar="GROUP", help="Check its rights on a group.")
@click.option(
    "--to",
    "purposes",
    multiple=True,
    type=click.Choice(["produce", "consume", "manage"]),
    help="What the rights have to permit; by default to produce and to consume.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="The longest time that the brokers are waited for.",
)
@json_option
@directory_argument
@reach_options
def doctor(
    deep: bool,
    everything: bool,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    purposes: tuple[str, ...],
    timeout_s: float,
    as_json: bool,
    options: StoreOptions,
) -> int:
    """Diagnose a store's DIRECTORY (else --dir) or a cluster (--bootstrap), without changing anything.

    Of a directory, the command reports the process that writes the store, leftovers of a crash, and differences
    between the files and the list of topics. It also reports low disk space and dangerous settings. Status 1 if
    there is a problem.

    Of a cluster, it reports addresses that cannot be reached, the bootstrap servers' and those that brokers
    advertise; a wrong protocol, certificate or login; brokers that are too old; partitions without a leader or
    without all their replicas; and, with --topic, --group or --to manage, missing ACLs with the command that adds
    them.

    JSON: level, name, where, what, advice.
    """
    if options.bootstrap is None:
        if topics or groups or purposes:
            raise click.UsageError("--topic, --group and --to are for a cluster; give --bootstrap HOST:PORT too")
        place, found = _of_directory(options, deep)
    else:
        if deep:
            raise click.UsageError("--deep reads the files of a store; leave it out with --bootstrap")
        place, found = _of_cluster(options, topics, groups, purposes, timeout_s)
    worst = output.OK
    count = 0
    for each in found:
        if each.level is Level.PROBLEM:
            worst = output.FAILED
        if each.level is not Level.INFO:
            count += 1
        elif not everything:
            continue
        each = each._replace(what=of_a_command(each.what), advice=of_a_command(each.advice))
        output.print_item(each, as_json=as_json)
    output.say(f"{place}: {count or 'nothing'} found")
    return worst


def _of_directory(options: StoreOptions, deep: bool) -> tuple[str, Iterator[Finding]]:
    path = options.path()
    config = options.config()

    def found() -> Iterator[Finding]:
        root = Directory(path)
        with output.progress("doctor", len(partitions_below(root)) if root.exists() else None) as step:
            yield from diagnose(path, config, deep=deep, step=step)

    return path, found()


def _of_cluster(
    options: StoreOptions,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    purposes: tuple[str, ...],
    timeout_s: float,
) -> tuple[str, Iterator[Finding]]:
    from logstore.remote.diagnosis import diagnosis  # here: only a cluster needs a client of brokers
    from logstore.remote.diagnosis.rights import Purpose

    bootstrap, settings = options.connection()
    wanted = diagnosis.IntendedUse(topics, groups, tuple(map(Purpose, purposes)))
    return bootstrap, diagnosis.diagnose(bootstrap, settings, wanted, timeout_s=timeout_s)
