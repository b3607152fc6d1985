"""What the thread of the sockets sets for the whole process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

#: Prints the page faults of ten rounds of blocks that are filled and freed together, as brokers' answers are.
_ROUNDS = """
import resource
from logstore.config.remote import WireConfig
from logstore.remote.network.loop import Network
def round():
    return len([b"x" * (3 << 20) for _ in range(3)])
with_thread = {with_thread}
network = Network(WireConfig())
if with_thread:
    network.hand_over(lambda now_s: None)
round(), round()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    round()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
network.close()
"""


def faults(with_thread: bool, **variables: str) -> int:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    program = _ROUNDS.format(with_thread=with_thread)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ | variables, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc keeps memory by its own rules")
def test_freed_memory_is_kept_once_a_client_works_unless_the_program_has_set_that_itself() -> None:
    pages = 10 * 3 * (3 << 20) // os.sysconf("SC_PAGE_SIZE")
    assert faults(with_thread=True) < pages // 20
    assert faults(with_thread=False) > pages // 2
    assert faults(with_thread=True, MALLOC_MMAP_THRESHOLD_="131072") > pages // 2
