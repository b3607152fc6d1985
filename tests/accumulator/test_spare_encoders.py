"""Encoders that wait for their next batch: their memory is used again, and stays within ``buffer.memory``."""

from __future__ import annotations

import pytest

import logstore
from tests.kit.inside import spare_bytes


@pytest.mark.parametrize("batches", [1, 7, 64])
def test_what_is_kept_fits_the_buffer_memory(tmp_path, batches):
    limit = 64 << 10
    with logstore.open(tmp_path) as store:
        store.create_topic("t", batches)
        with store.producer(batch_size=4096, buffer_memory=limit, linger_ms=1_000) as producer:
            for _ in range(3):
                for number in range(batches):
                    producer.send("t", bytes(4000), partition=number)
                producer.flush()
            assert producer.metrics().buffered_bytes == 0
            assert 0 < spare_bytes(producer) <= limit
