from typing_extensions import disjoint_base

from logstore._segment import Segment

@disjoint_base
class SegmentSet:
    """The segments of one log, by base offset. The last one is active, the others are sealed."""

    all: tuple[Segment, ...]

    @property
    def generation(self) -> int: ...
    @property
    def changing(self) -> int: ...
    @property
    def cuts(self) -> int: ...
    @property
    def active(self) -> Segment:
        """The segment that takes the next append."""

    def moment(self) -> int:
        """Return the generation as readers see it: odd while files are removed, to be opened again afterwards."""

    def begin_at(self, generation: int) -> None:
        """Begin with the generation that recovery has found."""

    def begin_change(self, *, cut: bool = False) -> None:
        """Record that files are about to be removed: by a truncation if ``cut``, else by a segment swap."""

    def end_change(self) -> None:
        """Record the end of a change; another may be in progress."""

    def replaced(self) -> int:
        """Raise the generation, as files are replaced; return it."""

    def not_replaced(self) -> None:
        """Lower the generation again: the change was given up before any file was replaced or it was recorded."""

    def __len__(self) -> int: ...
