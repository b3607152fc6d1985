"""Two processes that replicate a log: a registry of their own on SQLite, a transport of their own on sockets."""
