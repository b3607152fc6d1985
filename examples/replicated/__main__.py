"""Two processes replicate a log; the leader is killed, the other one goes on, and the first comes back.

Run it: ``python -m examples.replicated --directory demo-data-replicated``. It prints what each step shows, and ends
with 1 if the two copies differ.
"""

import argparse
import contextlib
import hashlib
import pathlib
import shutil
import subprocess
import sys
import time


class Process:
    """One of the two, driven by its commands."""

    def __init__(self, directory, number):
        self.number = number
        command = [sys.executable, "-m", "examples.replicated.process", str(directory), str(number)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def hear(self):
        line = self.child.stdout.readline().split()
        if not line:
            raise EOFError(f"process {self.number} has ended")
        return line

    def ask(self, command):
        self.child.stdin.write(command + "\n")
        self.child.stdin.flush()
        return self.hear()

    def leader(self):
        return int(self.ask("leader")[1])

    def kill(self):
        self.child.kill()
        self.close()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()


def append(processes, value, *, until_s=20.0):
    """Append where the leader is, and try again while none is known; return who leads, and the offset."""
    until = time.monotonic() + until_s
    while time.monotonic() < until:
        for process in processes:
            if process.leader() == process.number:
                told = process.ask(f"append {value}")
                if told[0] == "at":
                    return process, int(told[1])
        time.sleep(0.02)
    raise TimeoutError("no process has become the leader")


def wait_until_in_sync(processes, *, until_s=60.0):
    """Wait until both copies have all that is acknowledged; return who leads. Only then may either be lost."""
    until = time.monotonic() + until_s
    while time.monotonic() < until:
        for process in processes:
            if process.leader() == process.number and len(process.ask("isr")) == 3:  # the word, and two numbers
                return process
        time.sleep(0.02)
    raise TimeoutError("the copies are not in sync")


def digests(directory):
    """Return the digest of the log of each copy."""
    found = {}
    for copy in sorted(directory.glob("node-*")):
        files = sorted((copy / "orders-0").glob("*.log"))
        found[copy.name] = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("demo-data-replicated"))
    directory = parser.parse_args().directory
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    both = {number: Process(directory, number) for number in (1, 2)}
    for process in both.values():
        process.hear()
    for number in range(100):
        leader, offset = append(both.values(), f"order-{number}")
    leader = wait_until_in_sync(both.values())
    print(f"node {leader.number} leads; 100 orders are on both nodes, the last one at offset {offset}")
    leader.kill()
    killed_at = time.monotonic()
    other = both[3 - leader.number]
    leader, offset = append([other], "order-100")
    print(
        f"node {3 - other.number} is killed; node {other.number} leads after {time.monotonic() - killed_at:.1f} s"
    )
    for number in range(101, 200):
        append([other], f"order-{number}")
    both[3 - other.number] = Process(directory, 3 - other.number)
    both[3 - other.number].hear()
    leader, offset = append(both.values(), "order-200")
    print(f"node {3 - other.number} is back and follows; the newest order is at offset {offset}")
    wait_until_in_sync(both.values())
    for process in both.values():
        process.close()
    found = digests(directory)
    print("copies:", ", ".join(f"{name} {digest}" for name, digest in found.items()))
    return 0 if len(set(found.values())) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
