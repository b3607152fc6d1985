"""A real Apache Kafka for tests: fetched with Maven, one KRaft broker on loopback, and its dump tool.

``python -m tests.interop.broker`` fetches the jars that `pom.xml` names into ``build/kafka``, and those of Spark's
Kafka connector, and builds the Go client there, or says in one line what is missing of these and strace. `Broker`
runs one broker on a directory of its own and free ports; it ends with its ``with`` block, and with the process that
started it, whatever happens to that. ``python -m tests.interop.broker COMMAND`` runs a command beside one.
`tests.interop.cluster` makes three of them one cluster.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.kit.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / "build" / "kafka"
POM = Path(__file__).with_name("pom.xml")
CONNECTOR_POM = Path(__file__).with_name("spark_connector.xml")
GO = Path(__file__).with_name("go")
JS = Path(__file__).with_name("js")

VERSION = re.search(r"<kafka.version>(.+)</kafka.version>", POM.read_text())[1]
CONNECTOR_VERSION = re.search(r"<connector.version>(.+)</connector.version>", CONNECTOR_POM.read_text())[1]
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

JAVA_VERSION = 17
START_S = 90
STOP_S = 60

PR_SET_PDEATHSIG = 1


class MissingToolError(RuntimeError):
    """A program that these tests need is not here; the message says how to get it."""


@functools.cache
def java() -> str:
    """The path of a Java that is new enough and can compile.

    Raises:
        MissingToolError: there is none.
    """
    path = shutil.which("java")
    advice = f"make interop needs a JDK, version {JAVA_VERSION} or newer (apt install openjdk-17-jdk-headless)"
    if path is None:
        raise MissingToolError(f"{advice}; there is no java")
    told = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found[1]) < JAVA_VERSION:
        raise MissingToolError(f"{advice}; {path} is {told.splitlines()[0] if told else 'unknown'}")
    modules = subprocess.run([path, "--list-modules"], capture_output=True, text=True, check=False).stdout
    if "jdk.compiler" not in modules:
        raise MissingToolError(f"{advice}; {path} has no compiler")
    return path


@functools.cache
def fetch() -> Path:
    """The folder with the jars of Kafka, fetched if it is not there.

    Raises:
        MissingToolError: java or mvn is missing, or Maven cannot reach its repository.
    """
    return _fetch(POM, f"Kafka {VERSION}", CACHE / f"libs-{VERSION}")


@functools.cache
def fetch_connector() -> list[Path]:
    """The jars of Spark's own Kafka connector, fetched if they are not there.

    Raises:
        MissingToolError: as `fetch`.
    """
    folder = _fetch(
        CONNECTOR_POM, f"Spark's Kafka connector {CONNECTOR_VERSION}", CACHE / f"connector-{CONNECTOR_VERSION}"
    )
    return sorted(folder.glob("*.jar"))


def _fetch(pom: Path, what: str, folder: Path) -> Path:
    """The folder, with what a file for Maven names."""
    java()
    if folder.exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingToolError("make interop needs Maven (apt install maven); there is no mvn")
    coming = folder.with_name(f"{folder.name}.coming")
    shutil.rmtree(coming, ignore_errors=True)
    command = [maven, "-B", "-q", "-f", str(pom), COPY, f"-DoutputDirectory={coming}", "-DincludeScope=runtime"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "maven.log").write_text(done.stdout + done.stderr)
        raise MissingToolError(f"Maven could not fetch {what}; see {CACHE / 'maven.log'}")
    coming.rename(folder)
    return folder


def go_reader() -> Path:
    """The program that reads a partition with franz-go; see `_go_program`."""
    return _go_program(".", "read")


def go_sarama() -> Path:
    """The program that writes and reads a partition with sarama; see `_go_program`."""
    return _go_program("./sarama", "sarama")


@functools.cache
def _go_program(package: str, name: str) -> Path:
    """A program of the folder ``go``, built again if its source has changed.

    Raises:
        MissingToolError: Go is missing, too old, or cannot reach its modules.
    """
    advice = "make interop needs Go 1.24 or newer (https://go.dev/dl/, or apt install golang)"
    go = shutil.which("go")
    if go is None:
        raise MissingToolError(f"{advice}; there is no go")
    CACHE.mkdir(parents=True, exist_ok=True)
    program = CACHE / name
    command = [go, "build", "-C", str(GO), "-buildvcs=false", "-o", str(program), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingToolError(f"{advice}; go build failed: {' '.join(done.stderr.split()[-40:])}")
    return program


@functools.cache
def kafkajs() -> list[str]:
    """The beginning of a command that writes with kafkajs: Node, and the program beside its packages.

    Raises:
        MissingToolError: Node is missing, or npm cannot fetch the packages.
    """
    advice = "make interop needs Node 18 or newer with npm (https://nodejs.org, or apt install nodejs npm)"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise MissingToolError(f"{advice}; there is no {'node' if node is None else 'npm'}")
    folder = CACHE / "js"
    shutil.copytree(JS, folder, dirs_exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingToolError(f"{advice}; npm install failed: {' '.join(done.stderr.split()[-40:])}")
    return [node, str(folder / "write.js")]


@functools.cache
def strace() -> str:
    """The path of strace.

    Raises:
        MissingToolError: it is missing.
    """
    path = shutil.which("strace")
    if path is None:
        raise MissingToolError("make interop counts system calls with strace (apt install strace); there is none")
    return path


def run_tool(name: str, *arguments: str | Path, typed: str = "") -> str:
    """What a class with a ``main`` among Kafka's jars prints; subprocess.CalledProcessError if it fails."""
    command = [java(), "-Xmx256m", "-cp", f"{fetch()}/*", name, *map(str, arguments)]
    done = subprocess.run(
        command, input=typed.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    return done.stdout.decode(errors="replace")


def run_java(source: Path, *arguments: str) -> str:
    """What a program prints whose source is one file, with Kafka's jars; its warnings are left out."""
    command = [java(), "-Xmx256m", "-cp", f"{fetch()}/*", str(source), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def free_ports(count: int) -> list[int]:
    """Return ports on loopback without a listener."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class BrokerFailedError(RuntimeError):
    """The broker did not start or ended by itself; the message has the end of what it printed."""


class Seat(NamedTuple):
    """A broker's place in its cluster. ``controllers`` are the ports of all, that of node 1 first."""

    node: int
    controllers: tuple[int, ...]
    cluster_id: str


def new_cluster_id() -> str:
    """Return an id for `Seat`. It begins with a letter: a dash would be taken for an option."""
    return base64.urlsafe_b64encode(b"\0" + os.urandom(15)).decode().rstrip("=")


class Broker:
    """One Apache Kafka on a directory: controller and broker in one process.

    ``listeners`` are further ones by name, each with its protocol, such as ``SSL``; `address` says where each is.
    ``properties`` are settings by Kafka's keys, ``users`` are the users of SCRAM with their passwords, ``options``
    are for Java. The listener of ``bootstrap`` stays plain, and is for the test's own tools. Without a ``seat`` the
    broker is a cluster of its own.

    Owns: the process. ``data`` is its log directory, where each partition is a directory.
    """

    def __init__(
        self,
        directory: Path,
        *,
        listeners: Mapping[str, str] | None = None,
        properties: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
        options: Iterable[str] = (),
        seat: Seat | None = None,
        **settings: str | int,
    ) -> None:
        seat = seat or Seat(1, tuple(free_ports(1)), new_cluster_id())
        copies = min(3, len(seat.controllers))
        self.directory = directory
        self.data = directory / "data"
        self._output = directory / "broker.log"
        self._properties = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        further = dict(listeners or {})
        self._options = tuple(options)
        self._port, *ports = free_ports(1 + len(further))
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._addresses = {name: f"127.0.0.1:{port}" for name, port in zip(further, ports, strict=True)}
        places = {"PLAINTEXT": self.bootstrap} | self._addresses
        named = ",".join(f"{name}://{place}" for name, place in places.items())
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"} | further
        directory.mkdir(parents=True)
        written = {
            "process.roles": "broker,controller",
            "node.id": seat.node,
            "listeners": f"{named},CONTROLLER://127.0.0.1:{seat.controllers[seat.node - 1]}",
            "advertised.listeners": named,
            "listener.security.protocol.map": ",".join(f"{name}:{which}" for name, which in protocols.items()),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.voters": ",".join(
                f"{node}@127.0.0.1:{port}" for node, port in enumerate(seat.controllers, 1)
            ),
            "log.dirs": self.data,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.ms": -1,
            "auto.create.topics.enable": "false",
            **{name.replace("_", "."): value for name, value in settings.items()},
            **(properties or {}),
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in written.items()))
        (directory / "log4j2.properties").write_text(
            "status=ERROR\nappender.c.type=Console\nappender.c.name=C\nappender.c.layout.type=PatternLayout\n"
            "appender.c.layout.pattern=%d %p %c %m%n\nrootLogger.level=INFO\nrootLogger.appenderRef.c.ref=C\n"
        )
        known = [
            word
            for user, password in (users or {}).items()
            for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for word in ("--add-scram", f"{kind}=[name={user},password={password}]")
        ]
        run_tool("kafka.tools.StorageTool", "format", "-t", seat.cluster_id, "-c", self._properties, *known)

    def address(self, listener: str) -> str:
        """Host and port of one of the further listeners."""
        return self._addresses[listener]

    @property
    def is_running(self) -> bool:
        """Whether the broker was started, and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the running broker."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        self.launch()
        self.await_answer()

    def launch(self) -> None:
        """Start the broker; `await_answer` waits for it."""
        command = [java(), "-Xmx512m", "-Djava.awt.headless=true", *self._options]
        command += [f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}"]
        command += ["-cp", f"{fetch()}/*", "kafka.Kafka", str(self._properties)]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=die_with_parent
            )

    def await_answer(self) -> None:
        """Wait until the broker, which was launched, answers."""
        process = self._process
        assert process is not None
        try:
            wait_for(lambda: answers(self._port) or process.poll() is not None, START_S, every_s=0.1)
            assert process.poll() is None
        except AssertionError:
            self.kill()
            raise BrokerFailedError(f"the broker did not start:\n{self.tail()}") from None

    def stop(self) -> None:
        """Have the broker shut down cleanly, and wait for it."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailedError(f"the broker did not stop:\n{self.tail()}") from None

    def kill(self) -> None:
        """End the broker as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def tail(self, lines: int = 60) -> str:
        """The end of what the broker has printed."""
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-lines:])

    def printed(self) -> str:
        """All that the broker has printed since it was made."""
        return self._output.read_text(errors="replace")

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill() if exc_info[0] is not None else self.stop()


def run_beside(command: list[str]) -> int:
    """Run a command while a broker runs; the word BOOTSTRAP in it becomes the broker's address."""
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder, Broker(Path(folder) / "broker") as broker:
        return subprocess.run([broker.bootstrap if word == "BOOTSTRAP" else word for word in command]).returncode


def answers(port: int) -> bool:
    """Whether a broker answers the question which requests it knows (ApiVersions, version 0)."""
    body = struct.pack(">hhih", 18, 0, 1, 1) + b"x"
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.settimeout(5)
            connection.sendall(struct.pack(">i", len(body)) + body)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


def die_with_parent() -> None:
    """For a child: be killed when the process that started it dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def forget_in_checkpoints(data: Path, partitions: Iterable[str]) -> None:
    """Take the lines of partitions out of a stopped broker's checkpoints, and its mark of a clean shutdown.

    So a broker is told that the files of these partitions are not what it wrote.
    """
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    forgotten = {tuple(name.rsplit("-", 1)) for name in partitions}
    for name in (
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ):
        path = data / name
        if path.exists() and path.stat().st_size:
            version, _, *lines = path.read_text().splitlines()
            kept = [line for line in lines if tuple(line.split()[:2]) not in forgotten]
            path.write_text("\n".join([version, str(len(kept)), *kept]) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(run_beside(sys.argv[1:]))
    try:
        print(strace(), java(), fetch(), go_reader(), go_sarama(), *kafkajs(), *fetch_connector(), sep="\n")
    except MissingToolError as error:
        sys.exit(str(error))
