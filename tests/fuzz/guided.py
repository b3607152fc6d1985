"""Fuzz one target led by coverage of the C code: needs atheris (PyPI) and extensions built by clang.

``python tests/fuzz/guided.py batch CORPUS -max_total_time=600``; see docs/testing.md for the build. What
libFuzzer adds to our changes is that inputs which reach new code are kept and changed again.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.fuzz.batches import repair
from tests.fuzz.mutate import Mutator
from tests.fuzz.targets import TARGETS, Target


def main() -> None:
    """Run libFuzzer with our seeds and changes; a finding ends the process, as libFuzzer does."""
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"unknown target {name!r}; known are {', '.join(TARGETS)}")
    target: Target = TARGETS[name]
    make = target.prepare()

    def change(data: bytes, most: int, seed: int) -> bytes:
        m = Mutator(random.Random(seed))
        changed = bytearray(data) if len(data) > 1 and m.chance(0.9) else bytearray(make(m))
        if m.chance(0.5):
            changed = bytearray(atheris.Mutate(bytes(changed), most))
        else:
            m.changes(changed)
        if name.startswith("batch") and m.chance(0.95):
            repair(changed, length=m.chance(0.85))
        return bytes(changed[:most])

    def read(data: bytes) -> None:
        try:
            target.read(bytes(data))
        except target.refusals:
            pass

    atheris.Setup(sys.argv, read, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
