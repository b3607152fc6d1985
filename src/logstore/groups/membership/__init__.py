"""One member of a consumer group as a state machine: no sockets, no threads and no clock of its own."""
