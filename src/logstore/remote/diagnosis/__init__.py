"""Diagnosis of a cluster from the side of a client: addresses, logins, versions, partitions, rights."""
