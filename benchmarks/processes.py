"""What another process has taken of the machine, as the kernel tells it."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU that a process has used, all threads."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """Return the memory of a process that is resident, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
