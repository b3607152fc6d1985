from typing_extensions import Buffer

def compress(codec: int, data: Buffer, level: int = 0) -> bytes:
    """Compress ``data`` as the records of one batch."""

def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """Decompress the output of `compress`, or of any other Kafka client; at most ``limit`` bytes."""
