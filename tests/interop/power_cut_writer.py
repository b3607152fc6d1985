"""The process whose disk loses power: it changes one log at random and says what was acknowledged.

Run as ``python power_cut_writer.py PARTITION SEED``. Each line of the ledger is one write to standard
output; a small letter comes before what it announces, a capital after it::

    a n count            the n-th append is about to be made
    A n first synced     it was acknowledged; 1: as synced
    t end / T end        truncate_to
    d start / D start    delete_before
    F end                flush has returned; everything below end is synced
"""

from __future__ import annotations

import os
import random
import sys

SETTINGS = {"segment_bytes": 40_000, "index_interval_bytes": 1_000}


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def value_of(n: int, i: int) -> bytes:
    return b"%d %d|" % (n, i) + bytes([n % 251]) * ((n * 37 + i * 101) % 900)


def main() -> None:
    from logstore import Log

    rng = random.Random(int(sys.argv[2]))
    log = Log.open(sys.argv[1], SETTINGS)
    n = 0
    while True:
        dice = rng.random()
        if dice < 0.02:
            log.maintenance.roll()
        elif dice < 0.05:
            end = log.log_end_offset
            log.flush()
            say("F", end)
        elif dice < 0.06:
            end = rng.randrange(max(log.log_start_offset, log.log_end_offset - 60), log.log_end_offset + 1)
            say("t", end)
            say("T", log.replica.truncate_to(end))
        elif dice < 0.08 and log.log_end_offset - log.log_start_offset > 400:
            start = log.log_start_offset + rng.randrange(300)
            say("d", start)
            say("D", log.delete_before(start))
        else:
            count = rng.randrange(1, 6)
            synced = rng.random() < 0.2
            say("a", n, count)
            done = log.append([value_of(n, i) for i in range(count)], ack="synced" if synced else "written")
            say("A", n, done.first_offset, int(synced))
            n += 1


if __name__ == "__main__":
    main()
