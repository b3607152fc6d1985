# cython: language_level=3
"""Segment set: the segments of an open log as one tuple, and what tells its readers that files were replaced.

An append and a read take the tuple and the generation here without a call of Python. `Segments` of
`log.directory.segments` opens, adds and removes the segments with their files.

Threads: changed under the log's lock, and read without it. The tuple itself never changes.
"""


cdef class SegmentSet:
    """The segments of one log, by base offset. The last one is active, the others are sealed.

    Owns: the tuple, the generation and the count of changes in progress.
    """

    @property
    def active(self) -> Segment:
        """The segment that takes the next append."""
        return self._active()

    cdef Segment _active(self):
        cdef tuple segments = self.all
        return <Segment>segments[len(segments) - 1]

    def moment(self) -> int:
        """Return the generation as readers see it: odd while files are removed, to be opened again afterwards."""
        return self._moment()

    cdef int64_t _moment(self) noexcept:
        return 2 * self.generation + (self.changing > 0)

    def begin_at(self, int64_t generation: int) -> None:
        """Begin with the generation that recovery has found."""
        self.generation = generation

    def begin_change(self, *, bint cut: bool = False) -> None:
        """Record that files are about to be removed: by a truncation if ``cut``, else by a segment swap."""
        self.changing += 1
        self.cuts += cut

    def end_change(self) -> None:
        """Record the end of a change; another may be in progress."""
        self.changing -= 1

    def replaced(self) -> int:
        """Raise the generation, as files are replaced; return it."""
        self.generation += 1
        return self.generation

    def not_replaced(self) -> None:
        """Lower the generation again: the change was given up before any file was replaced or it was recorded."""
        self.generation -= 1

    def __len__(self) -> int:
        return len(self.all)
