def held() -> tuple[int, int]:
    """Return how many batches the table holds, and their bytes of memory."""
