"""A simulated cluster: replicas on disks in memory, a network and a registry with faults, in virtual time."""
