"""Bars on a terminal for what takes long, and none where there is no terminal."""

from __future__ import annotations

import os
import pty

import pytest

import logstore


@pytest.fixture
def shown(process):
    """What a command shows on a terminal as its standard error, and what it prints."""

    def run(*words):
        master, slave = pty.openpty()
        try:
            with process(*words, stderr=slave) as running:
                os.close(slave)
                told, _ = running.communicate(timeout=300)
            assert running.returncode == 0
            seen = b""
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:  # EIO: the other end is closed
                    break
                if not part:
                    break
                seen += part
        finally:
            os.close(master)
        return seen.decode(), told

    return run


COMMANDS = {
    "export": ("export", "flights"),
    "import": ("import", "copy", "{lines}", "--create"),
    "flights-1": ("import", "flights", "{other}", "--create", "--new-timestamps"),
    "flights-0": ("import", "flights", "{other}", "--create", "--keep-partitions"),
    "verify": ("segment", "verify"),
    "doctor": ("doctor",),
    "housekeep": ("housekeep",),
    "snapshot": ("snapshot", "{target}", "--verify"),
}


@pytest.mark.parametrize("label", COMMANDS)
def test_what_takes_long_shows_how_far_it_is_on_a_terminal(flights, shown, tmp_path, label):
    (tmp_path / "lines.jsonl").write_text(flights("export", "flights"))
    places = {"lines": tmp_path / "lines.jsonl", "target": tmp_path / "target", "other": tmp_path / "other"}
    with logstore.open(places["other"], environ={}) as store:
        topic = store.create_topic("flights", partitions=2)
        for number in range(4):
            topic.append(b"x", partition=number % 2)
    words = [word.format(**places) for word in COMMANDS[label]]
    seen, told = shown(*words)
    assert label in seen
    assert "100%" in seen
    assert b"%" not in told
    if label in ("export", "verify", "doctor", "housekeep"):
        assert "%" not in flights.result(*words).stderr


def test_a_snapshot_and_housekeeping_tell_a_program_how_far_they_are(tmp_path):
    with logstore.open(tmp_path / "data", environ={}) as store:
        store.create_topic("t", partitions=3, cleanup_policy="compact")
        told: list[tuple[int, int]] = []
        store.snapshot(tmp_path / "copy", verify=True, progress=lambda done, total: told.append((done, total)))
        count = len(told) // 2
        assert count >= 3
        assert told == [(number, 2 * count) for number in range(1, 2 * count + 1)]
        told.clear()
        store.housekeep(progress=lambda done, total: told.append((done, total)))
        assert [done for done, _ in told] == list(range(1, len(told) + 1))
        assert told[-1][0] == told[-1][1]
        assert all(done <= total for done, total in told)
