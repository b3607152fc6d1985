"""The command line as a whole: help, exit statuses, closed pipes, Ctrl-C, a live owner."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete

import logstore
from logstore.cli import output
from logstore.cli.main import COMMANDS, cli
from logstore.records import TopicPartition
from tests.kit.waiting import is_readable


def commands(group, trail=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*trail, name))
        else:
            yield (*trail, name), command


def test_every_command_has_help_that_says_what_it_does(run):
    found = dict(commands(cli))
    assert len(found) > 25
    for words, command in found.items():
        text = run(*words, "--help")
        assert text.startswith(f"Usage: logstore {' '.join(words)}")
        assert len(command.get_short_help_str(200)) > 20
        if any("--json" in parameter.opts for parameter in command.params) and words != ("produce",):
            assert "JSON" in text, words


def test_the_list_of_commands_is_whole_and_names_exit_statuses(run):
    text = run("--help")
    assert all(name in text for name in COMMANDS)
    assert "75 try again" in " ".join(text.split())
    assert re.fullmatch(r"logstore( \d+\.\S+|, from a source tree)\n", run("--version"))


@pytest.mark.parametrize("module", ["logstore", "logstore.cli"])
def test_python_runs_the_package_as_the_command(module):
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("logstore")


def test_help_imports_no_command_and_no_store():
    program = (
        "import sys\nfrom logstore.cli.main import cli\n"
        "try: cli.main(['--help'])\nexcept SystemExit: pass\n"
        "ours = [name for name in sys.modules if name.startswith(('logstore.', 'numpy'))]\n"
        "heavy = ('logstore.store', 'logstore.log', 'numpy')\n"
        "loaded = [name for name in ours if name.startswith(heavy) or name.rpartition('.')[2].startswith('_')]\n"
        "print(loaded, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["topic", "explode"], "No such command"),
        (["topic", "create"], "Missing argument"),
        (["consume", "flights", "-o", "nowhere"], "expected beginning, end"),
        (["consume", "flights", "-o", "@soon"], "expected milliseconds"),
        (["consume", "flights", "-f", "%q"], "unknown %q"),
        (["consume", "flights", "--json", "-f", "%s"], "exclude each other"),
        (["topic", "alter", "flights"], "is needed"),
        (["topic", "alter", "flights", "retention.ms"], "KEY=VALUE"),
        (["topic", "create", "x", "-c", "retenton.ms=5"], "the nearest name is retention.ms"),
        (["topic", "list", "--set", "num.partition=2"], "the nearest name is num.partitions"),
        (["offsets", "set", "g", "flights=3"], "TOPIC:PARTITION"),
        (["produce", "flights", "--json", "-K", ":"], "have their keys in them"),
        (["topic", "delete", "flights"], "give --yes"),
        (["offsets", "delete", "g"], "give --yes"),
        (["import", "flights", "-", "--keep-offsets"], "needs a directory"),
    ],
)
def test_a_wrong_command_line_is_status_2_and_changes_nothing(flights, words, said):
    before = flights.json("topic", "describe")
    assert said in flights.error(*words, status=output.USAGE)
    assert flights.json("topic", "describe") == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["consume", "trains", "-e"], "trains"),
        (["consume", "flights", "-e", "-p", "7"], "7"),
        (["topic", "create", "flights"], "flights"),
        (["topic", "create", "../escape"], "escape"),
        (["topic", "delete", "flights", "trains", "--yes"], "trains"),
        (["topic", "add-partitions", "flights", "1"], "2"),
        (["topic", "trim", "flights", "-b", "99", "--yes"], "99"),
        (["segment", "dump", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_done_is_status_1_and_changes_nothing(flights, words, said):
    before = flights.json("topic", "describe")
    text = flights.error(*words)
    assert text.startswith("error: ")
    assert said in text
    assert flights.json("topic", "describe") == before


@pytest.mark.parametrize(
    "words", [["topic", "list"], ["consume", "x", "-e"], ["segment", "verify"], ["offsets", "list"]]
)
def test_a_directory_that_is_not_there_is_not_made_by_reading(run, words):
    assert "does not exist" in run.error(*words)
    assert not run.directory.exists()


def test_without_a_directory_the_command_line_is_wrong(run, monkeypatch):
    monkeypatch.setattr(run, "_runner", click.testing.CliRunner(env={"LOGSTORE_DIR": None}))
    assert "give --dir DIR" in run.error("topic", "list", status=output.USAGE)


def test_the_directory_may_come_from_a_server_properties(flights, monkeypatch, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={flights.directory}\nnum.io.threads=8\n")
    monkeypatch.setattr(flights, "_runner", click.testing.CliRunner(env={"LOGSTORE_DIR": None}))
    assert flights("topic", "list", "--config", file).splitlines()[1].split() == ["flights", "2"]


def test_beside_a_live_owner_reading_works_and_writing_names_its_pid(flights, process):
    with logstore.open(flights.directory, environ={}) as store:
        store.topic("flights").append(b"live", partition=0)
        with process("consume", "flights", "-e", "-f", "%s,") as reading:
            told, said = reading.communicate(timeout=300)
        assert (reading.returncode, said) == (0, b"")
        assert told.endswith(b"value 4,live,") or b"live," in told
        store.commit_offsets("g", {TopicPartition("flights", 0): 4})
        for words in (
            ["topic", "list"],
            ["topic", "describe", "--json"],
            ["export", "flights"],
            ["offsets", "list"],
            ["offsets", "lag", "g"],
            ["segment", "list"],
            ["segment", "dump", "--deep"],
            ["segment", "verify", "--deep"],
            ["config", "show", "-t", "flights"],
            ["config", "check"],
        ):
            with process(*words) as reading:
                told, said = reading.communicate(timeout=300)
            assert reading.returncode == 0, (words, said)
            assert told or words == ["segment", "verify", "--deep"]
        for words in (
            ["topic", "create", "trains"],
            ["produce", "flights"],
            ["topic", "trim", "flights", "-b", "end", "--yes"],
            ["segment", "rebuild-index", flights.directory / "flights-0"],
            ["segment", "repair", "--yes-cut-damage", flights.directory / "flights-0"],
        ):
            with process(*words) as writing:
                _told, said = writing.communicate(b"one\n", timeout=300)
            assert writing.returncode == output.RETRY, (words, said)
            assert f"pid {os.getpid()}".encode() in said
        with process("doctor", "--all") as doctor:
            told, _said = doctor.communicate(timeout=300)
        assert (doctor.returncode, f"pid {os.getpid()}".encode() in told) == (0, True)
        assert store.topics() == ["flights"]
        assert store.topic("flights")[0].log_end_offset == 4


def test_a_closed_pipe_ends_a_command_quietly(run, process):
    with logstore.open(run.directory, environ={}) as store:
        store.create_topic("many").append_many([b"x" * 100] * 20_000)
    with process("consume", "many", "-e") as reading:
        assert reading.stdout.readline() == b"x" * 100 + b"\n"
        reading.stdout.close()
        said = reading.stderr.read()
    assert (said, reading.returncode) == (b"", output.CLOSED_PIPE)


def test_a_message_stands_behind_the_data_before_it_also_where_both_go_into_one_file(flights, process):
    with (flights.directory / "flights-0" / f"{0:020d}.log").open("r+b") as file:
        file.seek(70)
        file.write(b"x")
    with process("segment", "verify", stderr=subprocess.STDOUT) as verifying:
        told, _said = verifying.communicate(timeout=300)
    lines = told.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["damage:", "2"]
    assert lines[-1] == "2 segment(s) of 2 partition(s): 1 problem(s)"


def test_a_pipe_that_is_closed_before_an_error_ends_quietly_too(flights, process):
    reading, writing = os.pipe()
    os.close(reading)
    with process("topic", "describe", "flights", "nowhere", stdout=writing) as describing:
        os.close(writing)
        _told, said = describing.communicate(timeout=300)
    assert b"BrokenPipe" not in said
    assert b"Exception ignored" not in said


def test_ctrl_c_ends_a_command_that_follows_a_topic(flights, process):
    with process("consume", "flights", "-f", "%s\\n") as reading:
        for _ in range(6):
            assert reading.stdout.readline().startswith(b"value")
        reading.send_signal(signal.SIGINT)
        _told, said = reading.communicate(timeout=300)
    assert reading.returncode == output.INTERRUPTED
    assert b"Traceback" not in said


def test_what_follows_a_topic_prints_records_as_they_come(flights, process):
    with logstore.open(flights.directory, environ={}) as store:
        with process("consume", "flights", "-o", "end", "-c", "2") as reading:
            topic = store.topic("flights")
            seen = b""
            while not seen:  # until it has begun at the end
                topic.append(b"new", partition=0)
                if is_readable(reading.stdout, timeout_s=0.05):
                    seen = reading.stdout.readline()
            topic.append(b"new", partition=1)
            told, said = reading.communicate(timeout=300)
        assert (seen + told, said, reading.returncode) == (b"new\nnew\n", b"", 0)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_a_shell(run, shell):
    assert "_LOGSTORE_COMPLETE" in run("completion", shell)


def test_completion_knows_commands_and_options(process, monkeypatch):
    monkeypatch.setenv("_LOGSTORE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "logstore top")
    monkeypatch.setenv("COMP_CWORD", "1")
    with process() as completing:
        told, _said = completing.communicate(timeout=300)
    assert told.split() == [b"plain,topic"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("consume fl", {"flights"}),
        ("tail ", {"flights", "trains"}),
        ("topic describe flights tr", {"trains"}),
        ("consume flights --group b", {"billing"}),
        ("offsets lag ", {"billing"}),
        ("offsets set billing flights:", {"flights:0", "flights:1"}),
        ("topic alter flights retention.", {"retention.bytes=", "retention.ms="}),
        ("topic create new --set retention.m", {"retention.ms="}),
        ("topic alter flights --reset retention.m", {"retention.ms"}),
        ("config explain linger.", {"linger.ms"}),
        ("config check --producer linger.", {"linger.ms="}),
        ("consume --dir nowhere ", set()),
    ],
)
def test_completion_knows_topics_groups_and_keys(flights, words, expected, monkeypatch):
    flights("topic", "create", "trains")
    flights("offsets", "set", "billing", "flights:0=1")
    monkeypatch.chdir(flights.directory.parent)
    monkeypatch.setenv("LOGSTORE_DIR", str(flights.directory))
    *before, begun = words.split(" ")
    found = ShellComplete(cli, {}, "logstore", "_LOGSTORE_COMPLETE").get_completions(before, begun)
    assert {item.value for item in found} == expected


def test_the_command_says_what_it_needs_where_click_is_not_installed():
    program = "import sys; sys.modules['click'] = None; from logstore.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'logstore[cli]'" in done.stderr


def test_verbose_logs_to_standard_error_and_quiet_does_not(flights, process):
    with process("-v", "topic", "create", "trains", "--set", "num.io.threads=3") as loud:
        told, said = loud.communicate(timeout=300)
    assert (loud.returncode, told) == (0, b"")
    assert b"settings without effect here: num.io.threads" in said
