"""``logstore serve``: a store for Kafka's clients, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket

import click

import logstore
from logstore.cli import output
from logstore.cli.store_option import StoreOptions, directory_argument, store_options
from logstore.config.broker import BrokerConfig, ListenAddress


def _notify(state: str) -> None:
    """Tell systemd a state, if it has asked to be told (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notifier:
        try:
            notifier.connect("\0" + address[1:] if address[0] == "@" else address)
            notifier.send(state.encode())
        except OSError as error:
            output.say(f"systemd is not told {state}: {error.strerror}")


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="The address to listen on, or several with commas; port 0 is a free one. [default: listeners of the "
    "settings, else 127.0.0.1:9092]",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Where a page for Prometheus is served; port 0 is a free one. [default: logstore.metrics.listener of the "
    "settings, else nowhere]",
)
@directory_argument
@store_options
def serve(listen: str | None, metrics: str | None, options: StoreOptions) -> int:
    """Serve the topics of DIRECTORY (else --dir) to Kafka's clients, until SIGTERM or Ctrl-C.

    Prints one line with the bootstrap servers once clients can connect, and tells systemd, where that has
    started it with Type=notify. There is no login: a client that reaches the port may read, write and delete
    every topic.
    """
    from logstore.broker import serve as serve_store  # here: no other command needs the broker

    config = options.broker_config()
    if metrics is not None:
        config = BrokerConfig.of(config, metrics_listener=metrics)
    with logstore.open(options.path(), options.config()) as store, serve_store(store, listen, config) as broker:

        def end(*_: object) -> None:
            broker.stop()

        earlier = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            click.echo(f"serving {store.path} at {broker.bootstrap}")
            if broker.metrics_address is not None:
                host, port = broker.metrics_address
                output.say(f"metrics at http://{ListenAddress('', host, port)}/metrics")
            _notify("READY=1")
            broker.wait()
            _notify("STOPPING=1")
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)
    output.say("stopped cleanly")
    return output.OK
