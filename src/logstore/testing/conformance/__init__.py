"""Conformance suites: tests that every implementation of an interface of logstore must pass, also an embedder's.

Subclass a suite in a test module, define how your implementation is made, and pytest runs its tests::

    from logstore.testing.conformance import ClockConformance

    class TestOurClock(ClockConformance):
        def make_clock(self):
            return OurClock()

The tests check what the docstrings of the interfaces promise. They need pytest, and wait only for
their own threads.
"""

from logstore.testing.conformance.backends import BackendConformance
from logstore.testing.conformance.clocks import ClockConformance
from logstore.testing.conformance.databases import DatabaseConformance
from logstore.testing.conformance.file_tables import FilesConformance
from logstore.testing.conformance.high_watermark_policies import HighWatermarkPolicyConformance
from logstore.testing.conformance.high_watermark_policies import OwnerConformance as OwnerConformance  # former name
from logstore.testing.conformance.partitioners import PartitionerConformance
from logstore.testing.conformance.producers import ProducerConformance
from logstore.testing.conformance.readables import ReadableConformance
from logstore.testing.conformance.registries import RegistryConformance
from logstore.testing.conformance.replicas import ReplicaConformance
from logstore.testing.conformance.transports import TransportConformance

__all__ = [
    "BackendConformance",
    "ClockConformance",
    "DatabaseConformance",
    "FilesConformance",
    "HighWatermarkPolicyConformance",
    "PartitionerConformance",
    "ProducerConformance",
    "ReadableConformance",
    "RegistryConformance",
    "ReplicaConformance",
    "TransportConformance",
]
