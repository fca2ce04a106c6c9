"""`corral forward` as its user meets it: a job's port here, for this user alone, and no other port of its host."""

import os
import pwd
import random
import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from corral.client import Client
from tests.e2e.box import Box, Command, described, line_of, serving
from tests.e2e.test_users import as_user

ONE, OTHER = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")

SERVER = """
import socket, sys, threading
def serve(connection):
    with connection:
        while data := connection.recv(65536):
            connection.sendall(b"x" * 100_000_000 if data == b"much" else data)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=256)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
"""


def free_port() -> int:
    """A port that was free, below those that the kernel gives to others."""
    for _ in range(1000):
        port = random.randint(10_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


def server(port: int) -> tuple[str, ...]:
    return ("python3", "-c", SERVER, str(port))


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def job(box: Box, port: int) -> str:
    """A job with a server at the port."""
    job = box.submit("--", *server(port))
    box.until_phase(job, "RUNNING")
    return job


Connect = Callable[[], socket.socket]


@contextmanager
def forwarding(box: Box, *words: str) -> Iterator[tuple[Command, Connect]]:
    """The command, and how to connect to the port that its link names."""
    with ExitStack() as stack:
        command = stack.enter_context(box.start("forward", *words))
        stack.callback(command.kill)
        port = urlsplit(line_of(command.stdout, "http://").strip()).port

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))

        yield command, connect


def answer(connection: socket.socket, said: bytes) -> bytes:
    """What the server answers; b"" if the connection was closed."""
    heard = b""
    with suppress(ConnectionError):
        connection.sendall(said)
        while len(heard) < len(said) and (piece := connection.recv(len(said))):
            heard += piece
    return heard


def test_bytes_pass_both_ways_over_many_connections(box: Box, job: str, port: int) -> None:
    with forwarding(box, job, str(port)) as (_, connect):
        for said in (b"1", b"word", os.urandom(1_000)):
            assert answer(connect(), said) == said
        several = [connect() for _ in range(10)]
        assert [answer(one, b"%d" % number) for number, one in enumerate(several)] == [b"%d" % one for one in range(10)]
        largest = os.urandom(200_000)
        assert answer(several[0], largest) == largest
    assert "corral forward" in box.ok("show", job)


def test_a_port_of_ones_own_choice_is_used_or_refused(box: Box, job: str, port: int) -> None:
    local = free_port()
    with forwarding(box, job, f"{local}:{port}") as (_, connect):
        assert connect().getpeername()[1] == local
        taken = box.run("forward", job, f"{local}:{port}")
        assert (taken.returncode, f"port {local} of this machine cannot be used" in taken.stderr) == (2, True)
    for wrong in ("0", "65536", "x", f"{port}:", "-1:80", "1:2:3"):
        refused = box.run("forward", "--", job, wrong)
        assert (refused.returncode, "is no port" in refused.stderr) == (2, True), refused.stderr


def test_a_job_that_does_not_listen_yet_is_waited_for(box: Box, port: int) -> None:
    gate = box.home / f"gate-{port}"
    job = box.submit("--", "sh", "-c", f'until [ -e {gate} ]; do sleep 0.1; done; exec python3 -c "$0" {port}', SERVER)
    box.until_phase(job, "RUNNING")
    with box.start("forward", job, str(port)) as command:
        assert f"no process of the job listens on port {port}; waiting" in line_of(command.stderr, "listens")
        gate.touch()
        link = line_of(command.stdout, "http://").strip()
        with socket.create_connection(("127.0.0.1", urlsplit(link).port), 60) as connection:
            assert answer(connection, b"there") == b"there"
        command.kill()


def test_a_process_of_the_same_user_outside_of_the_job_is_not_reached(box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        ours.settimeout(0.5)
        job = box.submit("--", "sleep", "1000")
        box.until_phase(job, "RUNNING")
        with box.start("forward", job, str(ours.getsockname()[1])) as command:
            assert "no process of the job listens" in line_of(command.stderr, "listens")
            with pytest.raises(TimeoutError):
                ours.accept()
            assert command.stdout is not None
            assert not select.select([command.stdout], [], [], 0)[0]
            command.kill()


def test_a_port_that_another_program_takes_over_is_not_reached(box: Box, port: int) -> None:
    job = box.submit("--", "sh", "-c", f'python3 -c "$0" {port} & echo $! > $CORRAL_SCRATCH/pid; sleep 1000', SERVER)
    box.until_phase(job, "RUNNING")
    with forwarding(box, job, str(port)) as (command, connect):
        assert answer(connect(), b"job's") == b"job's"
        box.ok("exec", job, "--", "sh", "-c", 'kill "$(cat $CORRAL_SCRATCH/pid)"')
        with box.until(lambda: _taken_over(port)) as ours:
            ours.settimeout(1)
            stolen = connect()
            assert answer(stolen, b"secret") == b""
            assert "no process of the job listens" in line_of(command.stderr, "listens")
            with suppress(TimeoutError):
                # It may have been connected to, and was told nothing.
                connection, _ = ours.accept()
                with connection:
                    assert connection.recv(10) == b""


def _taken_over(port: int) -> socket.socket | None:
    with suppress(OSError):
        return socket.create_server(("127.0.0.1", port))
    return None


def test_it_ends_with_the_job_and_says_so(box: Box, job: str, port: int) -> None:
    with forwarding(box, job, str(port)) as (command, connect):
        connection = connect()
        assert answer(connection, b"alive") == b"alive"
        box.ok("cancel", job)
        assert command.wait(60) == 125
        assert "the command with it" in line_of(command.stderr, "command")
        assert connection.recv(1) == b""
    done = box.run("forward", job, str(port))
    assert (done.returncode, "has ended" in done.stderr) == (125, True)


def test_who_never_reads_holds_up_nobody(box: Box, job: str, port: int) -> None:
    with forwarding(box, job, str(port)) as (_, connect):
        for _ in range(3):
            connect().sendall(b"much")
        assert answer(connect(), b"others") == b"others"


def test_hundreds_of_connections_have_a_bound(box: Box, job: str, port: int) -> None:
    with forwarding(box, job, str(port)) as (command, connect):
        connections = [connect() for _ in range(150)]
        answers = [answer(one, b"x") for one in connections]
        assert 60 <= answers.count(b"x") <= 64
        assert "64 are open, the limit" in line_of(command.stderr, "limit")
        for one in connections:
            one.close()
        box.until(lambda: answer(connect(), b"again") == b"again")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_of_this_machine_is_refused(box: Box, job: str, port: int) -> None:
    connecting = "import socket, sys; c = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); c.sendall(b'x')\n"
    connecting += "try: print(c.recv(1))\nexcept ConnectionError: print(b'')"
    with forwarding(box, job, str(port)) as (command, connect):
        local = connect().getpeername()[1]
        other = subprocess.run(
            ["/usr/bin/env", "python3", "-c", connecting, str(local)],
            user=ONE.pw_uid,
            capture_output=True,
            text=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
        )
        assert other.stdout == "b''\n", other.stderr
        assert "not yours" in line_of(command.stderr, "not yours")
        assert answer(connect(), b"mine") == b"mine"


@pytest.fixture(scope="module")
def shared() -> Iterator[Box]:
    with serving(described(2)) as box:
        box.home.chmod(0o755)
        yield box


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_user_reaches_no_port_of_anothers_job(shared: Box, port: int) -> None:
    mine = as_user(ONE, shared, lambda client: client.submit(["/bin/sleep", "1000"]).id)
    theirs = as_user(OTHER, shared, lambda client: client.submit(server(port)).id)
    for job in (mine, theirs):
        shared.until_phase(job, "RUNNING")
    with forwarding(shared, theirs, str(port)) as (_, connect):
        assert answer(connect(), b"root's") == b"root's"
    with shared.start("forward", mine, str(port)) as command:
        assert "no process of the job listens" in line_of(command.stderr, "listens")
        command.kill()

    def enter(client: Client) -> None:
        client.jobs.begin_exec(theirs, ["true"])

    assert as_user(ONE, shared, enter).startswith("Forbidden: ")


def test_run_brings_the_port_of_its_job(box: Box, port: int) -> None:
    with box.start("run", "--forward", str(port), "--", *server(port)) as command:
        link = line_of(command.stderr, "http://").split()[-1]
        with closing(socket.create_connection(("127.0.0.1", urlsplit(link).port), 60)) as connection:
            assert answer(connection, b"through") == b"through"
        (job,) = (row["id"] for row in box.json("ps", "--json"))
        box.ok("cancel", job)
        command.wait(60)


def test_without_a_python_in_the_job_that_is_said(box: Box) -> None:
    job = box.submit("--env", "PATH=/nonexistent", "--", "/bin/sleep", "1000")
    box.until_phase(job, "RUNNING")
    done = box.run("forward", job, "80")
    assert (done.returncode, "there is no python3 on the PATH of the job" in done.stderr) == (125, True), done.stderr
