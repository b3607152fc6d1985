"""The driver of replicas in a process: a node's identity, its session with the registry, its threads."""
