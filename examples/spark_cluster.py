"""A Spark cluster on this machine, and the flights on it: one master and two workers, each a process of its own.

    python -m examples.spark_cluster --directory demo-data-cluster [--bootstrap localhost:9092 [--profile FILE]]

Master and workers are started from the PySpark package that is installed, as they would be on three machines, and
end with this program, whatever happens to it. The flights go from files to a topic, to a windowed join with the
weather, to a topic and to Parquet: once by ``path``, as on storage that all executors share, and with
``--bootstrap`` once more through a Kafka broker. The exit status is 1 if a figure differs.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import logstore
from examples import flights_spark
from examples.show import DemoError, expect
from logstore.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS = 2
START_S = 90
STOP_S = 30

ROOT = Path(__file__).resolve().parent.parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"

PR_SET_PDEATHSIG = 1


class Cluster:
    """A standalone cluster: a master, and workers with one core each.

    Owns: the processes. They end with the ``with`` block, and with the process that started them.
    """

    def __init__(self, directory: Path, workers: int = WORKERS, memory: str = "1g") -> None:
        self.directory, self.workers, self.memory = directory, workers, memory
        port, self._page = _free_ports(2)
        self.master = f"spark://127.0.0.1:{port}"
        self._port = port
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def settings(self) -> dict[str, str]:
        """What a session of this cluster has to be told besides its master."""
        return {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": self.memory,
            "spark.executor.cores": "1",
            "spark.cores.max": str(self.workers),
            "spark.scheduler.minRegisteredResourcesRatio": "1",  # no task before all executors are there
            # Not on a cluster of one machine for each: there, the package is installed in the workers' Python.
            "spark.executorEnv.PYTHONPATH": _python_path(),
            "spark.local.dir": str(self.directory / "local"),
            "spark.sql.warehouse.dir": str(self.directory / "warehouse"),
            "spark.ui.showConsoleProgress": "false",
        }

    def session(self, name: str = "logstore", **settings: str) -> SparkSession:
        """A session on the cluster, with ``format("logstore")``."""
        from pyspark.sql import SparkSession

        import logstore.spark

        builder = SparkSession.builder.master(self.master).appName(name).config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
        builder = builder.config("spark.sql.parquet.compression.codec", "zstd")
        for key, value in {**self.settings(), **settings}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        logstore.spark.register(spark)
        return spark

    def alive(self) -> int:
        """How many workers the master knows to be alive."""
        return self._status().get("alive workers", 0)

    def stop(self) -> None:
        """End the workers, which end their executors, and the master."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + STOP_S
        for process in reversed(self._processes):
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        address = ["--host", "127.0.0.1"]
        self._launch("master", MASTER, *address, "--port", str(self._port), "--webui-port", str(self._page))
        self._wait(lambda: bool(self._status()), "the master did not start")
        for number in range(1, self.workers + 1):
            work = self.directory / f"worker-{number}"
            limits = ["--cores", "1", "--memory", self.memory, "--work-dir", str(work), "--webui-port", "0"]
            self._launch(f"worker-{number}", WORKER, *address, *limits, self.master)
        self._wait(lambda: self.alive() == self.workers, "the workers did not start")

    def _launch(self, name: str, *command: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environ = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYTHONPATH": _python_path(),
        }
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *command],
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=_die_with_parent,
                )
            )

    def _status(self) -> dict[str, int]:
        """What the master's page says; nothing while there is no page."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as page:
                told = json.load(page)
        except (OSError, ValueError):  # no page yet, or an empty one
            return {}
        return {"alive workers": told["aliveworkers"]}

    def _wait(self, is_done: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + START_S
        while not is_done():
            ended = [process for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > until:
                raise DemoError(f"{what}; see the logs in {self.directory}")
            time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _python_path() -> str:
    """Where workers find the package if it is not installed, and these examples."""
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.pathsep.join(dict.fromkeys(paths))


def _die_with_parent() -> None:
    """For a child: be ended when the process that started it dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


# --- what runs on it ---------------------------------------------------------------------------

RECORDS = 20_000


def both_workers_read(spark: SparkSession, directory: Path) -> None:
    """A topic is read by the executors of both workers, each record once."""
    root = directory / "numbers"
    shutil.rmtree(root, ignore_errors=True)
    with logstore.open(root) as store:
        values = [b"%d" % n for n in range(RECORDS)]
        store.create_topic("numbers", partitions=4).append_many([(value, value) for value in values])
    table = spark.read.format("logstore").option("path", str(root)).option("subscribe", "numbers").load()

    def where(batches: Any) -> Any:
        import pyarrow as pa

        executor = os.getcwd()  # each executor has a directory of its own
        for batch in batches:
            numbers = [int(value) for value in batch.column("value").to_pylist()]
            row = {"executor": [executor], "records": [len(numbers)], "total": [sum(numbers)]}
            yield pa.RecordBatch.from_pydict(row)

    found = table.select("value").mapInArrow(where, "executor string, records long, total long").collect()
    expect("records read by the executors", sum(row.records for row in found), RECORDS)
    expect("their sum", sum(row.total for row in found), sum(range(RECORDS)))
    executors = len({row.executor for row in found})
    expect("executors that have read", executors, WORKERS)
    print(f"{RECORDS:,} records read, each once, by {executors} executors")


def run(directory: Path, bootstrap: str = "", rows: int = 0, profile: str = "") -> None:
    """Start a cluster, run everything on it, and end it. ``rows``: only the first flights of the year.

    ``profile`` is a file with the settings of the connection to ``bootstrap``, such as ``security.protocol``.
    """
    directory = directory.resolve()
    shutil.rmtree(directory / "cluster", ignore_errors=True)
    with Cluster(directory / "cluster") as cluster:
        print(f"{cluster.master}: {cluster.alive()} workers")
        spark = cluster.session("flights")
        try:
            both_workers_read(spark, directory)
            print("flights by path")
            flights_spark.run(spark, directory / "path", "", rows)
            if bootstrap:
                print(f"flights by bootstrap, {bootstrap}")
                flights_spark.run(spark, directory / "bootstrap", bootstrap, rows, profile)
        finally:
            spark.stop()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="the flights on a Spark cluster of three processes")
    parser.add_argument("--directory", type=Path, default=Path("demo-data-cluster"), help="made if it is missing")
    parser.add_argument(
        "--bootstrap", default="", metavar="HOST:PORT", help="a Kafka broker, to run through it too"
    )
    parser.add_argument("--profile", default="", metavar="FILE", help="settings of the connection to the broker")
    parser.add_argument("--rows", type=int, default=0, help="only the first flights of the year")
    given = parser.parse_args(arguments)
    try:
        jvm.prepare()
        run(given.directory, given.bootstrap, given.rows, given.profile)
    except (DemoError, logstore.LogstoreError) as error:
        print(f"spark_cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
