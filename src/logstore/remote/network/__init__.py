"""The one thread that touches the sockets of a cluster, and the connections that it serves."""
