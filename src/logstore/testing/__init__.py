"""What embedders may use in their own tests: fakes that the library takes in the place of the real thing.

Outermost: nothing in logstore imports it.
"""

from logstore.testing.clock import ManualClock

__all__ = ["ManualClock"]
