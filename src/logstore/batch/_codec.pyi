from typing_extensions import Buffer

def compress(codec: int, data: Buffer, level: int = 0) -> bytes:
    """``data`` compressed as the records of one batch."""

def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """What `compress`, or any other Kafka client, was given; at most ``limit`` bytes."""
