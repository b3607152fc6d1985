from typing_extensions import Buffer

from logstore.io._files import File

SIZE: int

def pack(generation: int, log_start: int, high_watermark: int, last_stable: int, log_end: int) -> bytes: ...
def unpack(data: Buffer) -> tuple[int, int, int, int, int] | None: ...
def publish(
    file: File, generation: int, log_start: int, high_watermark: int, last_stable: int, log_end: int
) -> None: ...
