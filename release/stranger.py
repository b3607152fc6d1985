"""A wheel of a name and a version with nothing in it but a marker: the stranger's `logstore`, or a stand-in."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def write_wheel(
    folder: Path, version: str, *, name: str = "logstore", tag: str = "py3-none-any", python: str = ""
) -> Path:
    """A wheel that pip accepts, with ``python`` on such a Python only.

    Its one module says who it is: ``WHO = "<name> <version>"``.
    """
    needs = f"Requires-Python: {python}\n" if python else ""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f'WHO = "{name} {version}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: logstore release\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items())
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inner, text in files.items():
            wheel.writestr(inner, text)
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
