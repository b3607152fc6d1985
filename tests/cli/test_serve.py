"""``logstore serve``: the line it prints, its clean end, and what survives a kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import logstore
from logstore.config.text import PREFIX
from logstore.log.formats.last_stop import Stop


@contextmanager
def _served(directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "logstore", "serve", str(directory), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(f"serving {directory} at 127.0.0.1:"), line + process.communicate()[1]
            yield process, line.split()[-1]
        finally:
            process.kill()


def test_sigterm_leaves_the_clean_mark(tmp_path: Path) -> None:
    with _served(tmp_path / "data") as (process, bootstrap):
        with logstore.connect(bootstrap) as cluster:
            cluster.create_topic("flights").append(b"AA 1141")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == "stopped cleanly\n"
    with logstore.open(tmp_path / "data") as store:
        log = store["flights"].log(0)
        assert log.replica.last_stop.stop is Stop.CLEAN
        assert [each.value for each in log.read(0)] == [b"AA 1141"]


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with _served(tmp_path / "data") as (process, bootstrap):
        with logstore.connect(bootstrap) as cluster:
            topic = cluster.create_topic("flights")
            for n in range(100):
                topic.append(b"%d" % n)
            process.kill()
            process.wait(30)
    with logstore.open(tmp_path / "data") as store:
        assert [each.value for each in store["flights"].log(0).read(0)] == [b"%d" % n for n in range(100)]


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with _served(tmp_path / "data") as (_, bootstrap):
        command = [sys.executable, "-m", "logstore", "serve", str(tmp_path / "other"), "--listen", bootstrap]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode != 0
    assert found.stderr == f"error: {bootstrap} cannot be listened on: Address already in use\n"
    assert found.stdout == ""


def test_the_page_of_metrics_is_told_and_its_port_in_use_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "logstore", "serve", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    command += ["--metrics", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            told = process.stderr.readline().split()
            assert told[:2] == ["metrics", "at"]
            with urllib.request.urlopen(told[2], timeout=20) as answer:
                assert b"kafka_brokers 1.0" in answer.read()
            address = told[2].removeprefix("http://").removesuffix("/metrics")
            other = [*command[:4], str(tmp_path / "other"), *command[5:-1], address]
            found = subprocess.run(other, capture_output=True, text=True, timeout=60, check=False)
            assert found.returncode != 0
            assert found.stderr == f"error: {address} cannot be listened on: Address already in use\n"
            assert found.stdout == ""
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_a_missing_library_is_one_line_that_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError\n")
    found = subprocess.run(
        [sys.executable, "-m", "logstore", "serve", str(tmp_path / "data"), "--metrics", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path), f"{PREFIX}LISTENERS": "127.0.0.1:0"},
    )
    assert found.returncode != 0
    assert found.stderr == "error: a page of metrics needs prometheus-client: pip install 'logstore[metrics]'\n"


def test_settings_come_from_a_file_and_the_environment_and_systemd_is_told(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "listeners=PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.2:0\nmax.connections.per.ip=1\nnum.partitions=3\n"
    )
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.bind(str(address))
        notifier.settimeout(30)
        environment = {**os.environ, "NOTIFY_SOCKET": str(address), f"{PREFIX}MAX_CONNECTIONS_PER_IP": "50"}
        command = [sys.executable, "-m", "logstore", "serve", str(tmp_path / "data"), "--config", str(properties)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            try:
                assert notifier.recv(100) == b"READY=1"
                assert process.stdout is not None
                first, second = process.stdout.readline().split()[-1].split(",")
                assert first.startswith("127.0.0.1:")
                assert second.startswith("127.0.0.2:")
                # The environment takes precedence over the file: else the second connection would be refused.
                with logstore.connect(first) as cluster, logstore.connect(second) as other:
                    cluster.create_topic("flights")
                    assert len(other["flights"].partitions) == 3
                process.send_signal(signal.SIGINT)
                assert notifier.recv(100) == b"STOPPING=1"
                assert process.wait(30) == 0
                assert process.stderr is not None
                assert "without effect" not in process.stderr.read()
            finally:
                process.kill()


def test_a_listener_with_tls_is_refused_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "logstore", "serve", str(tmp_path / "data"), "--listen", "SSL://127.0.0.1:0"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode != 0
    assert "neither TLS nor logins are served yet" in found.stderr
    assert found.stdout == ""
