"""A supervisor's socket for input, asked as a node agent asks it."""

import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.jobs.input import TerminalSize
from corral.core.ports.node import InputTaken
from corral.host.node.files import job_inputs
from corral.host.node.files.job_inputs import JobInputs
from corral.host.runtimes.process.output import job_input
from tests.host.runtimes.process.supervisor_parts import parts


class Program:
    """The reading end of a launch's input, and the socket that fills it, which answers when the test lets it."""

    def __init__(self, launches: Path) -> None:
        self.directory = launches / "1.1"
        self.directory.mkdir(parents=True)
        self._streams = parts().make_streams(os.fsencode(self.directory))
        self.reader = parts().reader_of(self._streams)
        fcntl.fcntl(parts().writer_of(self._streams), fcntl.F_SETPIPE_SZ, 4096)

    def answer(self) -> None:
        parts().streams_answer(self._streams)

    def end(self) -> None:
        """The supervisor ends."""
        if self._streams:
            parts().end_streams(self._streams)
        self._streams = None

    def ask(self, offset: int, data: bytes, *, end: bool = False) -> InputTaken:
        """A question, and what the socket answers to it."""
        request = job_input.write_request(offset, data, end=end)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.bind("")
            asking.connect(str(self.directory / job_input.SOCKET))
            asking.send(request)
            self.answer()
            return InputTaken(*job_input.read_answer(asking.recv(job_input.ANSWER_BYTES)))


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    made.end()
    os.close(made.reader)


def test_input_reaches_the_program_once_however_often_it_is_sent(program: Program) -> None:
    assert program.ask(0, b"abc") == InputTaken(3, True)
    assert program.ask(0, b"abc") == InputTaken(3, True)
    assert program.ask(0, b"abcdef") == InputTaken(6, True)
    assert program.ask(2, b"cd") == InputTaken(6, True)
    assert os.read(program.reader, 100) == b"abcdef"


def test_input_after_a_gap_is_not_taken(program: Program) -> None:
    assert program.ask(1, b"bc") == InputTaken(0, True)
    assert program.ask(1, b"", end=True) == InputTaken(0, True)


def test_a_program_that_does_not_read_is_given_what_a_pipe_holds_and_no_more(program: Program) -> None:
    assert program.ask(0, bytes(60_000)) == InputTaken(4096, True)
    assert program.ask(4096, bytes(60_000)) == InputTaken(4096, True)
    os.read(program.reader, 4096)
    assert program.ask(4096, bytes(60_000)).offset == 8192


def test_the_end_comes_after_the_last_byte_that_was_taken(program: Program) -> None:
    assert program.ask(0, bytes(5000), end=True) == InputTaken(4096, True)
    os.read(program.reader, 4096)
    assert program.ask(4096, bytes(904), end=True) == InputTaken(5000, False)
    assert os.read(program.reader, 5000) == bytes(904)
    assert os.read(program.reader, 1) == b""
    assert program.ask(5000, b"late") == InputTaken(5000, False)


def test_what_nobody_reads_any_more_is_closed(program: Program) -> None:
    os.close(program.reader)
    assert program.ask(0, b"abc") == InputTaken(0, False)
    program.reader = os.open("/dev/null", os.O_RDONLY)


def test_only_the_user_of_the_server_may_ask(program: Program) -> None:
    assert (program.directory / job_input.SOCKET).stat().st_mode & 0o777 == 0o600


def test_what_is_no_question_is_passed_over(program: Program) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        asking.connect(str(program.directory / job_input.SOCKET))
        for question in (b"", b"w", b"x" * 9, b"w" + b"\xff" * 8 + b"abc", b"e" + b"\xff" * 8):
            asking.send(question)
            program.answer()
    program.answer()
    assert program.ask(0, b"abc") == InputTaken(3, True)


def test_a_launch_that_is_not_there_or_takes_no_input_gives_no_answer(tmp_path: Path) -> None:
    inputs = JobInputs(tmp_path)
    assert inputs.write("1.1", 0, "", end=False) is None
    (tmp_path / "1.1").mkdir()
    assert inputs.write("1.1", 0, "", end=False) is None
    inputs.resize("1.1", TerminalSize(24, 80))


def test_a_supervisor_that_has_died_gives_no_answer(program: Program) -> None:
    program.end()
    assert JobInputs(program.directory.parent).write("1.1", 0, "", end=False) is None


def test_a_supervisor_that_hangs_is_not_waited_for(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_inputs, "ANSWER_WITHIN_S", 0.01)
    with pytest.raises(BackendFailed, match=r"launch 1\.1 does not take its input now"):
        JobInputs(program.directory.parent).write("1.1", 0, "", end=False)


@pytest.mark.parametrize(("offset", "data"), [(-1, ""), (2**63, ""), (0, "no base64"), (0, "AAAA" * 30_000)])
def test_what_is_no_portion_of_input_is_refused(tmp_path: Path, offset: int, data: str) -> None:
    with pytest.raises(Refused):
        JobInputs(tmp_path).write("1.1", offset, data, end=False)
