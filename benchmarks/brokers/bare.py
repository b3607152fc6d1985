"""The least that a broker can do for a fetch: read a small request, answer with a region of a file by sendfile.

``python -m benchmarks.brokers.bare FILE`` prints its port and serves one connection. Each request is a position in
the file, eight bytes. With ``--memory`` the same bytes come from the process by send, and show the speed of the
network alone.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from pathlib import Path

from benchmarks.brokers.load import FETCH_BYTES, Took, walk
from benchmarks.processes import cpu_of


def main() -> None:
    path = sys.argv[1]
    size = Path(path).stat().st_size
    memory = memoryview(Path(path).read_bytes()) if sys.argv[2:] == ["--memory"] else None
    file = os.open(path, os.O_RDONLY)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        out = connection.fileno()
        while request := connection.recv(8):
            (at,) = struct.unpack(">q", request)
            end = min(size, at + FETCH_BYTES)
            connection.send(struct.pack(">i", end - at), socket.MSG_MORE)
            if memory is not None:
                connection.sendall(memory[at:end])
                continue
            while at < end:
                at += os.sendfile(out, file, at, end - at)


def read_all(port: int, size: int, times: int, pid: int) -> Took:
    """Read the file that a bare loop serves, so many times."""
    buffer = memoryview(bytearray(FETCH_BYTES + 4))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        done = requests = 0
        cpu, wall = cpu_of(pid), time.perf_counter()
        while done < times * size:
            connection.sendall(struct.pack(">q", done % size))
            wanted, filled = 4, 0
            while filled < wanted:
                filled += connection.recv_into(buffer[filled:])
                if filled >= 4:
                    wanted = 4 + struct.unpack_from(">i", buffer)[0]
            done += walk(buffer, 4, wanted)[0]
            requests += 1
        return Took(done, requests, time.perf_counter() - wall, cpu_of(pid) - cpu)


if __name__ == "__main__":
    main()
