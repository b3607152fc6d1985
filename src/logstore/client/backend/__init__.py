"""The contract of back ends: what topics, producers, consumers and scans need of a store or a cluster."""
