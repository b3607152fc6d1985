from typing_extensions import Buffer

def murmur2(key: Buffer) -> int:
    """Return Kafka's hash of a key, from -2**31 to 2**31 - 1."""

def partition_of(key: Buffer, partition_count: int) -> int:
    """Return the partition that Kafka's clients choose for a key."""
