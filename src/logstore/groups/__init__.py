"""Consumer groups as values and state machines: no I/O and no clock. The store drives them in process."""
