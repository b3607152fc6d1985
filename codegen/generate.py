"""Turns the tables into the classes of `src/logstore/protocol/generated`, a module of each.

    python -m codegen.generate

tests/protocol/test_generated.py finds files that are not what this gives.
"""

from __future__ import annotations

from pathlib import Path

from codegen.python_code import python
from codegen.table import EMBEDDED_TABLE, RECORDS_TABLE, kafka_version, read

FOLDER = Path(__file__).resolve().parent.parent / "src" / "logstore" / "protocol" / "generated"


def generated() -> dict[Path, str]:
    """Every file that the tables give, and what stands in it."""
    messages, records, embedded = read(), read(RECORDS_TABLE), read(EMBEDDED_TABLE)
    return {
        FOLDER / "messages.py": python(messages, kafka_version()),
        FOLDER / "records.py": python(records, kafka_version(RECORDS_TABLE)),
        FOLDER / "embedded.py": python(embedded, kafka_version(EMBEDDED_TABLE)),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
