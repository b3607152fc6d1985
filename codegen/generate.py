"""Turns `messages.txt` into the codec: `_messages.pyx` and `messages.py` of `src/logstore/protocol/generated`.

    python -m codegen.generate

tests/protocol/test_generated.py finds files that are not what this gives.
"""

from __future__ import annotations

from pathlib import Path

from codegen.cython_code import cython
from codegen.python_code import python
from codegen.table import kafka_version, read

FOLDER = Path(__file__).resolve().parent.parent / "src" / "logstore" / "protocol" / "generated"


def generated() -> dict[Path, str]:
    """Every file that the table gives, and what stands in it."""
    messages = read()
    return {
        FOLDER / "_messages.pyx": cython(messages),
        FOLDER / "messages.py": python(messages, kafka_version()),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
