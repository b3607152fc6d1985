"""Sixty seconds of logstore, in the directory that it is run in: write, read back, read by time.

    python examples/tour.py

`make release` runs it on each Python, with nothing installed but logstore. It ends with status 1 if an
answer is wrong.
"""

# row: D4

from __future__ import annotations

import sys

from logstore import Codec, Log, __version__


def main() -> int:
    with Log.open("tour/flights-0") as log:
        log.append([b"AA 1141", b"UA 1545", b"B6 725"], codec=Codec.ZSTD)
        log.append([(b"DL", b"DL 461", 1_357_038_000_000)], ack="synced")
    with Log.open("tour/flights-0") as log:
        values = list(log.read(0).values())
        found = log.offset_for_time(1_357_038_000_000)
    if values != [b"AA 1141", b"UA 1545", b"B6 725", b"DL 461"] or found is None:
        print(f"read back: {values}, {found}", file=sys.stderr)
        return 1
    print(f"logstore {__version__}: {len(values)} records written, read back")
    return 0


if __name__ == "__main__":
    sys.exit(main())
