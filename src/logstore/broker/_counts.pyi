from typing import final

@final
class TopicCounts:
    """What has been fetched from one topic, and what was refused: plain numbers, changed by the loop's thread."""

    fetches: int
    failed_fetches: int
    bytes_out: int
    failed_produces: int
    def __init__(self) -> None: ...
