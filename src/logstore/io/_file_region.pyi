from typing import Protocol, Self, final

from typing_extensions import Buffer

from logstore.io._files import File

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

@final
class FileRegion:
    """Whole batches in a segment's file, which a fetch sends."""

    def __new__(cls, file: File, position: int, size: int, base_offset: int, next_offset: int) -> Self: ...
    @property
    def file(self) -> File: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    def close(self) -> None:
        """Release the file."""

    def read(self) -> bytes:
        """Return the bytes. They are not checked: their reader checks the CRC of each batch."""

    def read_into(self, out: Buffer) -> None:
        """Read the bytes into a buffer of their size. They are not checked, as with `read`."""

    def send_to(self, socket: int | _HasFileno, start: int = 0, most: int = ...) -> int:
        """Send the bytes from ``start`` on with sendfile, at most ``most`` of them; returns the number sent."""

    def is_cold(self, start: int = ..., most: int = ...) -> bool:
        """Return whether to send bytes from ``start`` on, at most ``most``, would wait for the disk."""

    def warm(self, start: int = 0, most: int = ...) -> None:
        """Read bytes from ``start`` on, at most ``most``, into memory: a send will not wait for the disk."""

    def copy_to(self, socket: int | _HasFileno, start: int = 0, most: int = ...) -> int:
        """Send as `send_to` does, through a buffer: for sockets that sendfile cannot serve."""

    def __len__(self) -> int: ...
