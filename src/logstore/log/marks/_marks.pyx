# cython: language_level=3
"""Marks of one open log: log start, last stable offset, high watermark, log end offset, and the synced end.

The log end offset rises first, with the bytes of an append. Every other move is one call here, and asserts the
order of the marks after it; so does the compiled append, which raises them one by one.

Threads: changed under the log's lock, and read without it.
"""

cimport cython


@cython.final
cdef class LogMarks:
    """The five offsets that say what of a log is there, visible and on disk.

    Owns: their values. Invariant: log start <= last stable <= high watermark <= log end, and synced end <= log end.
    """

    def __init__(self, int64_t log_start, int64_t end, int64_t synced, int64_t visible, clock, lock):
        """Begin with the offsets that recovery has found, and with the end of those that were visible before."""
        self.log_start = log_start
        self.end = Watermark(end, clock=clock, lock=lock)
        self.synced = Watermark(synced, clock=clock, lock=lock)
        self.high_watermark = Watermark(visible, clock=clock, lock=lock)
        self.last_stable = Watermark(log_start, clock=clock, lock=lock)
        self._falls = []

    cdef int check(self) except -1:
        """Assert the order of the marks; called once a move is complete, at every one."""
        cdef int64_t end = self.end.value, visible = self.high_watermark.value
        assert self.log_start <= self.last_stable.value <= visible <= end and self.synced.value <= end, str(self)
        return 0

    cpdef bint raise_visible(self, int64_t high_watermark, int64_t last_stable) except -1:
        """Raise the ends of what readers see; a lower one changes nothing. Return whether one of them has risen."""
        cdef bint moved = self.high_watermark.advance(high_watermark)
        moved = self.last_stable.advance(last_stable) or moved
        self.check()
        return moved

    cpdef int raise_synced(self, int64_t offset) except -1:
        """Raise the synced end: everything below ``offset`` is on disk."""
        self.synced.advance(offset)
        return self.check()

    def lower_synced(self, int64_t offset: int) -> None:
        """Lower the synced end for a truncation, or set it back if nothing was truncated."""
        self.synced.reset(offset)
        self.check()

    def raise_start(self, int64_t offset: int) -> None:
        """Raise the log start offset: records below it are deleted."""
        self.log_start = offset
        self.last_stable.advance(offset)
        self.check()

    def begin_lowering(self) -> None:
        """Record that a truncation has begun: until `lower`, `restart` or `end_lowering` no read may begin."""
        self.lowering = True

    def end_lowering(self) -> None:
        """Record that the truncation is over, or was given up."""
        self.lowering = False

    cdef int _note_cut(self, int64_t end) except -1:
        # Before the end falls: a thread that waits for what is removed looks here after it.
        while self._falls and self._falls[len(self._falls) - 1][1] >= end:
            self._falls.pop()
        self._falls.append((self.cuts + 1, end))
        self.cuts += 1
        return 0

    cpdef bint was_cut(self, int64_t end, int64_t since) except -1:
        """Return whether records up to ``end``, appended after ``since`` cuts, were removed by a later one."""
        if self.cuts == since:
            return False
        for number, lowest in self._falls:
            if number > since:
                return lowest < end
        return False

    def lower(self, int64_t end: int, int64_t stable: int) -> None:
        """Lower the log end offset to that of a truncation, and to it all marks; the last stable one to ``stable``.

        The synced end is lowered before, with the recovery point: see `lower_synced`.
        """
        self._note_cut(end)
        self.end.reset(end)
        self.high_watermark.reset(min(self.high_watermark.value, end))
        self.last_stable.reset(min(self.last_stable.value, stable))
        self.check()
        self.lowering = False

    def restart(self, int64_t offset: int) -> None:
        """Set every mark to the one offset of an empty log."""
        cdef Watermark mark
        self._note_cut(-1)  # whatever was appended before is gone, also if the new offset is higher
        self.log_start = offset
        for mark in (self.last_stable, self.high_watermark, self.synced, self.end):
            mark.reset(offset)
        self.check()
        self.lowering = False

    def close(self) -> None:
        """Notify every waiter; no later wait blocks."""
        cdef Watermark mark
        for mark in (self.end, self.synced, self.high_watermark, self.last_stable):
            mark.close()

    def __repr__(self):
        return (f"<LogMarks {self.log_start} <= {self.last_stable.value} <= {self.high_watermark.value} <= "
                f"{self.end.value}, synced {self.synced.value}>")
