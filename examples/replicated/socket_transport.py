"""A transport on Unix sockets, one connection for each call."""

import contextlib
import os
import threading
from multiprocessing.connection import Client, Listener

from logstore.errors import LogstoreError, PeerUnreachableError
from logstore.replication import Transport


class SocketTransport(Transport):
    def __init__(self, directory):
        self.directory = directory

    def call(self, to, request, *, timeout_s):
        try:
            with Client(f"{self.directory}/{to}.sock") as connection:
                connection.send_bytes(request)
                if not connection.poll(timeout_s):
                    raise OSError(f"no answer within {timeout_s} s")
                return connection.recv_bytes()
        except (OSError, EOFError) as error:
            raise PeerUnreachableError(f"node {to}: {str(error) or 'it ended the connection'}") from error


def serve(directory, node):
    """Answer other nodes in threads, until the function that this returns is called, or the process ends."""
    path = f"{directory}/{node.node}.sock"
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    listener = Listener(path)

    def answer(connection):
        with connection, contextlib.suppress(LogstoreError, OSError, EOFError):  # the other node asks again
            connection.send_bytes(node.answer(connection.recv_bytes()))

    def accept():
        while not ended.is_set():
            threading.Thread(target=answer, args=(listener.accept(),), daemon=True).start()
        listener.close()

    def stop():
        ended.set()
        with contextlib.suppress(FileNotFoundError, ConnectionError):  # the thread may have seen the end by itself
            Client(path).close()  # lets `accept` return
        thread.join()

    ended, thread = threading.Event(), threading.Thread(target=accept, daemon=True)
    thread.start()
    return stop
