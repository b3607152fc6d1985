"""The process that has the store open in `test_commit_client.py`, and dies where it is told to.

Run as ``python request_owner.py ROOT POINT``; it says "up" and then lives until its standard input ends.
"""

from __future__ import annotations

import errno
import os
import signal
import sys


def die(*_args, **_kwargs):
    os.kill(os.getpid(), signal.SIGKILL)


def dies(owner, name, *, before=False, when=lambda *args, **kwargs: True):
    honest = getattr(owner, name)

    def mortal(*args, **kwargs):
        if before and when(*args, **kwargs):
            die()
        found = honest(*args, **kwargs)
        if when(*args, **kwargs):
            die()
        return found

    setattr(owner, name, mortal)


def arm(point):
    from logstore.log import LogReplica
    from logstore.store.commit import ingest
    from logstore.store.commit.commit_log import Sinks
    from logstore.store.requests import channel, requests
    from logstore.store.requests.commit_server import RequestServer

    def in_phase(phase):
        return lambda self, query, state, *, durable: state.phase == phase

    match point:
        case "taken":
            dies(requests, "request_of")
        case "intent" | "committing" | "done":
            dies(Sinks, "put", when=in_phase(point))
        case "data":
            dies(LogReplica, "append_run")
        case "marker":
            dies(LogReplica, "append_control")
        case "removed":
            dies(ingest, "remove_staged")
        case "answering":
            dies(RequestServer, "_answer", before=True)
        case "answered":
            dies(RequestServer, "_answer")
        case "no sockets":

            def refused(root):
                raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

            channel.listen = refused


def main(root, point):
    import logstore

    arm(point)
    with logstore.open(root):
        print("up", flush=True)
        sys.stdin.read()


POINTS = ["taken", "intent", "data", "committing", "marker", "done", "removed", "answering", "answered"]

if __name__ == "__main__":
    main(*sys.argv[1:])
