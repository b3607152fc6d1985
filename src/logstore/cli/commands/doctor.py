"""``logstore doctor``: problems of a directory, and how to fix them."""

from __future__ import annotations

import click

from logstore.cli import output
from logstore.cli.advice import of_a_command
from logstore.cli.store_option import StoreOptions, directory_argument, json_option, store_options
from logstore.log.directory.files import Directory, partitions_below
from logstore.store.admin.diagnosis import Level, diagnose


@click.command()
@click.option("--deep", is_flag=True, help="Compare the checksum of every batch: reads everything.")
@click.option("-a", "--all", "everything", is_flag=True, help="Print what is in order, too.")
@json_option
@directory_argument
@store_options
def doctor(deep: bool, everything: bool, as_json: bool, options: StoreOptions) -> int:
    """Diagnose a store's DIRECTORY (else --dir), without changing anything.

    The command reports the process that writes the store, leftovers of a crash, and differences between the files
    and the list of topics. It also reports low disk space and dangerous settings. Status 1 if there is a problem.

    JSON: level, name, where, what, advice.
    """
    path = options.path()
    worst = output.OK
    count = 0
    root = Directory(path)
    with output.progress("doctor", len(partitions_below(root)) if root.exists() else None) as step:
        for found in diagnose(path, options.config(), deep=deep, step=step):
            if found.level is Level.PROBLEM:
                worst = output.FAILED
            if found.level is not Level.INFO:
                count += 1
            elif not everything:
                continue
            found = found._replace(what=of_a_command(found.what), advice=of_a_command(found.advice))
            output.print_item(found, as_json=as_json)
    output.say(f"{path}: {count or 'nothing'} found")
    return worst
