"""The least that an append by key takes, in C: see `least_append.c`. It is compiled when it is first asked for."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

SOURCE = Path(__file__).with_name("least_append.c")
HEADERS = Path(__file__).resolve().parent.parent / "src" / "logstore" / "batch"

TIMESTAMP_MS = 1_760_000_000_000


@functools.cache
def library() -> Any | None:
    """The compiled functions; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "least.so"
        options = ["-std=gnu11", "-O3", "-Wall", "-Wextra", "-shared", "-fPIC", "-pthread", f"-I{HEADERS}"]
        subprocess.run([compiler, *options, str(SOURCE), "-o", str(built)], check=True)
        found = ctypes.CDLL(str(built))
    number, address = ctypes.c_uint32, ctypes.c_void_p
    found.least_append.argtypes = [number, *[address] * 4, ctypes.c_uint64, number, *[address] * 3, ctypes.c_size_t]
    found.least_reserve.argtypes = [ctypes.c_int, ctypes.c_int64]
    return found


class LeastAppends:
    """Files, one for each partition, to which the rows of a record batch are appended by their keys."""

    def __init__(self, place: Path, data: pa.RecordBatch, partitions: int, appends: int) -> None:
        self.place = place
        self._library = library()
        self._data = data  # the addresses below are of its memory
        starts = [buffer.address for column in data.columns for buffer in column.buffers()[1:]]
        size = 2 * data.nbytes
        self._space = ctypes.create_string_buffer(partitions * size)
        self.files = [os.open(place / str(number), os.O_RDWR | os.O_CREAT) for number in range(partitions)]
        for file in self.files:
            self._library.least_reserve(file, appends * data.nbytes)
        self._arguments = (
            data.num_rows,
            *starts,
            TIMESTAMP_MS,
            partitions,
            (ctypes.c_int * partitions)(*self.files),
            (ctypes.c_int64 * partitions)(),
            self._space,
            size,
        )

    def append(self) -> None:
        assert self._library.least_append(*self._arguments) == 0

    def close(self) -> None:
        for file in self.files:
            os.close(file)
        shutil.rmtree(self.place)
