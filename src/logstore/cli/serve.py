"""``logstore serve``: a store for Kafka's clients, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal

import click

import logstore
from logstore.cli import output
from logstore.cli.store_option import StoreOptions, directory_argument, store_options


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:9092",
    show_default=True,
    metavar="HOST:PORT",
    help="The address to listen on; port 0 is a free one.",
)
@directory_argument
@store_options
def serve(listen: str, options: StoreOptions) -> int:
    """Serve the topics of DIRECTORY (else --dir) to Kafka's clients, until SIGTERM or Ctrl-C.

    Prints one line with the bootstrap server once clients can connect. There is no login: a client that
    reaches the port may read, write and delete every topic.
    """
    from logstore.broker import serve as serve_store  # here: no other command needs the broker

    with logstore.open(options.path(), options.config()) as store, serve_store(store, listen) as broker:

        def end(*_: object) -> None:
            broker.stop()

        earlier = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            click.echo(f"serving {store.path} at {broker.bootstrap}")
            broker.wait()
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)
    output.say("stopped cleanly")
    return output.OK
