"""The table of checked batches: its records are checked, its owner's newest, and its memory is bounded."""

from __future__ import annotations

import gc
import os
import random
import threading

import pytest

from logstore import Codec, Log
from logstore.batch._checked_batches import held
from logstore.errors import CorruptRecordError, LogClosedError, OffsetOutOfRangeError
from logstore.log import Marker, ProducerStamp
from logstore.testing import FaultyFiles
from tests.batch.model_batch import ModelRecord, encode_batch
from tests.log.logs import log_files, open_log
from tests.log.read.test_record_at import by_read

LIMIT = 16 << 20


def fill(log, *, batches=6, per_batch=200, codec=Codec.NONE, seed=0):
    rng = random.Random(seed)
    for _ in range(batches):
        log.append([rng.randbytes(rng.randrange(40, 300)) for _ in range(per_batch)], codec=codec)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("time", ["CreateTime", "LogAppendTime"])
def test_a_second_look_finds_what_the_first_did(tmp_path, codec, time):
    with open_log(tmp_path, message_timestamp_type=time) as log:
        fill(log, codec=codec)
        log.append([bytes(90_000), b"", bytes(40_000)], codec=codec)  # pieces larger than a window
        log.append([b"last"] * 300, codec=codec)
        wanted = [by_read(log, offset) for offset in range(log.log_end_offset)]
        before, _ = held()
        for _ in range(2):
            assert [log.record_at(offset) for offset in range(log.log_end_offset)] == wanted
            assert [log.record_at(o, isolation="read_committed") for o in range(log.log_end_offset)] == wanted
        assert held()[0] > before
        with Log.open(log.path, read_only=True) as reader:
            for _ in range(2):
                assert [reader.record_at(offset) for offset in range(log.log_end_offset)] == wanted


@pytest.mark.parametrize("time", ["CreateTime", "LogAppendTime"])
def test_a_second_look_finds_the_time_of_a_clients_batch(tmp_path, time):
    """A log that sets times changes the largest one alone: the base stays that of the client."""
    with open_log(tmp_path, message_timestamp_type=time) as log:
        for number in range(20):
            records = [ModelRecord(n, 5_000 + n, b"k", bytes(100)) for n in range(100)]
            log.replica.append_batch(encode_batch(records, base_offset=0, last_offset_delta=99))
            assert log.log_end_offset == 100 * (number + 1)
        before, _ = held()
        for _ in range(2):
            for offset in range(log.log_end_offset):
                found = log.record_at(offset)
                assert found == by_read(log, offset)
                assert (found.timestamp_ms == 5_000 + offset % 100) is (time == "CreateTime")
        assert held()[0] > before


@pytest.mark.parametrize("codec, reads", [(Codec.NONE, True), (Codec.ZSTD, False)])
def test_a_second_look_reads_a_piece_or_nothing(tmp_path, codec, reads):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        fill(log, batches=20, per_batch=500, codec=codec)
        offsets = range(1_000, 9_000, 61)  # the first batches, and the last one, are found by a search
        for offset in offsets:
            log.record_at(offset)
        before = files.counts()["preadv"]
        for offset in offsets:
            assert log.record_at(offset).offset == offset
        assert files.counts()["preadv"] - before == (len(offsets) if reads else 0)


@pytest.mark.row("S8")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_no_flipped_bit_comes_from_the_table(tmp_path, codec):
    """The bytes of each piece are checked when it is read, although its batch was checked before."""
    rng = random.Random(7)
    with open_log(tmp_path) as log:
        fill(log, codec=codec)
        (path,) = log_files(log).values()
        whole = path.read_bytes()
        wanted = {offset: log.record_at(offset).value for offset in range(1_200)}
        refused = 0
        for _ in range(300):
            position, offset = rng.randrange(len(whole)), rng.randrange(1_200)
            with open(path, "r+b") as file:
                file.seek(position)
                file.write(bytes([whole[position] ^ 1 << rng.randrange(8)]))
            # Near the flipped bit, and anywhere.
            for tried in (offset, min(position * 1_200 // len(whole), 1_199)):
                try:
                    found = log.record_at(tried)
                except CorruptRecordError:
                    refused += 1
                else:
                    assert found is not None
                    assert found.value == wanted[tried]
            with open(path, "r+b") as file:
                file.seek(position)
                file.write(whole[position : position + 1])
        assert refused > 10 or codec is not Codec.NONE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_truncation_a_swap_and_a_close_drop_what_is_kept(tmp_path, codec):
    with open_log(tmp_path, segment_bytes=1 << 20) as log:
        for seed in range(20):
            fill(log, seed=seed, codec=codec)
            end = log.log_end_offset
            before = [log.record_at(offset) for offset in range(end - 1_200, end)]
            cut = end - random.Random(seed).randrange(1, 1_100)
            cut = log.replica.truncate_to(cut)
            with pytest.raises(OffsetOutOfRangeError):
                log.record_at(end - 1)
            # The same offsets at the same positions, with other values of the same size.
            rng = random.Random(100 + seed)
            for start in range(cut, end, 200):
                values = [rng.randbytes(len(r.value)) for r in before[start - end + 1_200 :][:200]]
                first = log.append(values, codec=codec).first_offset
                assert [log.record_at(first + n).value for n in range(len(values))] == values
        assert held()[1] > 0
    log = open_log(tmp_path / "other")
    fill(log, codec=codec)
    before, _ = held()
    for _ in range(2):
        log.record_at(300)
    assert held()[0] == before + 1
    log.close()
    assert held()[0] == before
    with pytest.raises(LogClosedError):
        log.record_at(300)


def test_deleted_records_and_those_of_transactions_are_not_found(tmp_path):
    with open_log(tmp_path, segment_bytes=300_000) as log:
        log.append([bytes(200)] * 200, producer=ProducerStamp(1, 0, 0, True))
        log.replica.append_control(Marker.ABORT, producer_id=1, producer_epoch=0)
        fill(log, batches=20)
        log.append([bytes(200)] * 200, producer=ProducerStamp(2, 0, 0, True))
        log.append([b"behind an open transaction"])
        for _ in range(2):
            assert log.record_at(100).value == bytes(200)
            assert log.record_at(100, isolation="read_committed") is None
            assert log.record_at(1_000, isolation="read_committed") == by_read(log, 1_000)
            with pytest.raises(OffsetOutOfRangeError):
                log.record_at(log.log_end_offset - 1, isolation="read_committed")
        log.delete_before(2_000)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError):
                log.record_at(1_000)
        for unlike in (10**30, -(10**30)):
            with pytest.raises(OffsetOutOfRangeError):
                log.record_at(unlike)


def test_the_memory_is_bounded(tmp_path):
    with open_log(tmp_path) as log:
        for number in range(60):
            log.append([bytes([number]) * 1_000] * 900, codec=Codec.ZSTD)
        log.append([bytes(3 << 20)] * 2, codec=Codec.ZSTD)  # too large to be kept
        for offset in [*range(0, log.log_end_offset, 450), log.log_end_offset - 1]:
            assert log.record_at(offset).offset == offset
            assert held()[1] <= LIMIT
        assert held()[1] > LIMIT // 2
    gc.collect()
    assert held()[1] < LIMIT // 2


@pytest.mark.row("S2")
def test_what_is_kept_of_a_gigabyte_fits(tmp_path):
    """Of 100,000 batches of 100 x 100 B: with larger entries, each sixth look would read its whole batch."""
    with open_log(tmp_path) as log:
        for _ in range(50):
            log.append([bytes(100)] * 100)
        before_count, before_bytes = held()
        for offset in range(0, log.log_end_offset, 100):
            log.record_at(offset)
        count, size = held()
    assert count - before_count >= 45  # the last ones are found by a search, and not kept
    assert (size - before_bytes) / (count - before_count) * 100_000 <= LIMIT


def test_threads_look_up_while_others_truncate_and_append(tmp_path):
    """Values tell their offset and the append that wrote them: an entry of a truncated batch would be found."""
    with open_log(tmp_path) as log:
        done, wrong = threading.Event(), []
        newest = {}

        def append(turn: int) -> None:
            for number in range(4):
                start = log.log_end_offset
                newest.update(dict.fromkeys(range(start, start + 100), turn))
                codec = Codec.LZ4 if number % 2 else Codec.NONE
                log.append([b"%06d %06d" % (start + n, turn) + bytes(150) for n in range(100)], codec=codec)

        def look() -> None:
            rng = random.Random(threading.get_ident())
            while not done.is_set():
                offset = rng.randrange(800)
                least = newest.get(offset, 0)
                try:
                    found = log.record_at(offset)
                except OffsetOutOfRangeError:
                    continue
                at, turn = map(int, found.value[:13].split())
                # A look-up that began after an append sees it, or a later one.
                if at != offset or (turn < least and newest.get(offset) == least and offset < 300):
                    wrong.append((offset, at, turn, least))

        threads = [threading.Thread(target=look) for _ in range(3)]
        append(0)
        for thread in threads:
            thread.start()
        for turn in range(1, 60):
            cut = log.replica.truncate_to(300)
            assert cut == 300
            append(turn)
            offset = random.Random(turn).randrange(300, log.log_end_offset)
            assert int(log.record_at(offset).value[7:13]) == turn
        done.set()
        for thread in threads:
            thread.join()
        assert not wrong


def test_a_forked_process_looks_up_in_a_log_of_its_own(tmp_path):
    with open_log(tmp_path) as log:
        fill(log)
        wanted = [log.record_at(offset).value for offset in (1, 500)]
        child = os.fork()
        if not child:
            code = 1
            try:
                with Log.open(log.path, read_only=True) as reader:
                    code = 0 if [reader.record_at(offset).value for offset in (1, 500)] * 2 == wanted * 2 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [log.record_at(offset).value for offset in (1, 500)] == wanted
