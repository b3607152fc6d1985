"""Turns `messages.txt` into the codec: `_messages.pyx` and `messages.py` of `src/logstore/wire`.

    python -m protocol.generate

tests/wire/test_generated.py finds files that are not what this gives.
"""

from __future__ import annotations

from pathlib import Path

from protocol.cython_code import cython
from protocol.python_code import python
from protocol.table import kafka_version, read

WIRE = Path(__file__).resolve().parent.parent / "src" / "logstore" / "wire"


def generated() -> dict[Path, str]:
    """Every file that the table gives, and what stands in it."""
    messages = read()
    return {
        WIRE / "_messages.pyx": cython(messages),
        WIRE / "messages.py": python(messages, kafka_version()),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
