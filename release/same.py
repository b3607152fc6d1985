"""The same bytes from the same commit: archives without the time, the order and the rights of the day.

A user who builds the release again, from the same commit with the same tools, can compare the published checksums.
Rewrites a finished archive in place; what is in it does not change.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import zipfile
from pathlib import Path

#: A zip archive has no time before this one.
_FIRST_ZIP_TIME = 315_532_800


def rewrite_sdist(path: Path, seconds: int) -> None:
    """A ``.tar.gz`` with every entry at that time, sorted by name, without an owner."""
    with tarfile.open(path) as before:
        members = [(member, _data(before, member)) for member in sorted(before, key=lambda member: member.name)]
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", fileobj=packed, mtime=seconds) as zipped:
        with tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as after:
            for member, data in members:
                member.mtime, member.pax_headers = seconds, {}
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                after.addfile(member, io.BytesIO(data))
    path.write_bytes(packed.getvalue())


def _data(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member) if member.isfile() else None
    return b"" if file is None else file.read()


def rewrite_wheel(path: Path, seconds: int) -> None:
    """A ``.whl`` with everything as of that time, in the order of its names; its RECORD comes last."""
    when = time.gmtime(max(seconds, _FIRST_ZIP_TIME))[:6]
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as after:
        for name in sorted(before.namelist(), key=lambda name: (name.endswith(".dist-info/RECORD"), name)):
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            executable = before.getinfo(name).external_attr >> 16 & 0o100
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            after.writestr(entry, before.read(name))
    path.write_bytes(packed.getvalue())


def difference(first: Path, second: Path) -> str:
    """What two archives of one name differ in, in a line; "" if in nothing."""
    if first.read_bytes() == second.read_bytes():
        return ""
    members = [_members(path) for path in (first, second)]
    names = sorted(name for name in members[0].keys() | members[1] if members[0].get(name) != members[1].get(name))
    return f"{first.name}: {', '.join(names[:5]) or 'its order, times or packing'} differ"


def _members(path: Path) -> dict[str, bytes]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(path) as archive:
        return {member.name: _data(archive, member) for member in archive}
