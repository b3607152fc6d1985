"""A client's batch takes one compiled call, or the steps of `log.append`: both do the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logstore import Codec, Log
from logstore.batch._batch import stamp_producer
from logstore.batch._crc32c import crc32c
from logstore.batch._encode import encode, encode_marker
from logstore.errors import LogstoreError
from logstore.testing import ManualClock
from tests.log.logs import NOW_MS, log_files, open_log

CONFIGS = [
    {},
    {"segment_bytes": 400},
    {"cleanup_policy": "compact"},
    {"compression_type": "lz4"},
    {"compression_type": "uncompressed"},
    {"message_timestamp_type": "LogAppendTime"},
    {"max_message_bytes": 120},
    {"message_timestamp_before_max_ms": 1_000, "message_timestamp_after_max_ms": 1_000},
    {"retention_ms": 1_000_000},
]

times = st.sampled_from([NOW_MS, NOW_MS - 1_000, NOW_MS - 1_001, NOW_MS + 1_001, NOW_MS - 10**9, 0])


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A batch as clients send them, and now and then one that is wrong."""
    records = [
        (draw(st.sampled_from([None, b"k"])), b"v" * draw(st.integers(0, 60)), draw(times))
        for _ in range(draw(st.integers(1, 4)))
    ]
    data = bytearray(encode(records, timestamp_ms=NOW_MS, codec=draw(st.sampled_from([0, 0, *Codec]))))
    if draw(st.booleans()):
        stamp_producer(
            data,
            draw(st.integers(1, 2)),
            draw(st.integers(0, 1)),
            draw(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 2**31 - 2])),
            transactional=draw(st.booleans()),
        )
    how = draw(
        st.sampled_from(["whole"] * 6 + ["longer", "shorter", "flipped", "attributes", "time", "count", "marker"])
    )
    if how == "longer":
        data += b"\0"
    elif how == "shorter":
        del data[-1]
    elif how == "flipped":
        data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    elif how == "attributes":
        data[22] ^= 1 << draw(st.integers(0, 7))
    elif how == "time":
        data[draw(st.sampled_from([27, 34, 35, 42]))] ^= 1 << draw(st.integers(0, 7))
    elif how == "count":
        data[60] ^= 1
    elif how == "marker":
        return encode_marker(draw(st.integers(0, 1)), 0, 1, 0, NOW_MS)
    if how in ("attributes", "time", "count"):
        data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def outcome(log: Log, batch: bytes | bytearray) -> object:
    """Return the result of an append, or its error with its words."""
    try:
        return log.replica.append_batch(batch)
    except LogstoreError as error:
        return type(error), str(error)


def contents(log: Log) -> object:
    """Return the marks, the epochs of the producers and the bytes of the segments."""
    marks = log.log_end_offset, log.high_watermark, log.last_stable_offset
    epochs = [log.replica.producer_epoch(producer_id) for producer_id in (1, 2)]
    return marks, epochs, {base: path.read_bytes() for base, path in log_files(log).items()}


@pytest.mark.filterwarnings("ignore::logstore.errors.RetentionWarning")
@pytest.mark.parametrize("config", CONFIGS, ids=str)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.lists(batches(), max_size=6))
def test_the_compiled_append_of_a_batch_and_its_steps_in_python_do_the_same(
    tmp_path_factory: pytest.TempPathFactory, config: dict[str, object], given: list[bytes]
) -> None:
    """Only bytes may take the compiled call: a `bytearray` can change while its thread waits for the lock."""
    home = tmp_path_factory.mktemp("batches")
    logs = [open_log(Path(home) / side, clock=ManualClock(NOW_MS), **config) for side in ("bytes", "bytearray")]
    try:
        for log in logs:
            log.append([(b"k", b"v")])
        for batch in given:
            # Twice: the second one is a duplicate if it names a producer.
            for _ in range(2):
                assert outcome(logs[0], batch) == outcome(logs[1], bytearray(batch))
        assert contents(logs[0]) == contents(logs[1])
    finally:
        for log in logs:
            log.close()


def test_the_bytes_of_a_caller_stay_as_they_are(tmp_path: Path) -> None:
    batch = encode([b"a"], timestamp_ms=NOW_MS)
    before = bytes(bytearray(batch))
    with open_log(tmp_path) as log:
        log.append([b"x"])
        for _ in range(3):
            log.replica.append_batch(batch)
        assert batch == before
        assert [record.value for record in log.scan()] == [b"x", b"a", b"a", b"a"]
