"""One server of root's, two Unix users: each works as themselves, and neither touches the other's work."""

import importlib
import json
import os
import pwd
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corral.cli import commands, main
from corral.client import Client
from corral.client.submitting.request import submission
from corral.core.model.errors import CorralError
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.token import TokenScope
from corral.wire import to_plain
from tests.e2e.box import PATIENCE_S, Box, described, serving, uuid

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as two other users")

# Commands import when they run, and who they run as below may not be able to read where these tests lie.
for _name in (
    *("app", "jobs.change", "direct.change_jobs", "direct.list_devices", "tables.device_tables"),
    *("local.config", "local.doctor", "local.doctor_gpu", "local.server", "local.simulate", "local.served_nodes"),
    *(f"commands.{path.stem}" for path in Path(commands.__path__[0]).glob("[a-z]*.py")),
):
    importlib.import_module(f"corral.cli.{_name}")
for _name in (
    *("sim.reports.history", "sim.replays.journal", "sim.replays.past", "host.telemetry.discover"),
    "host.runtimes.docker.daemon_calls",
):
    importlib.import_module(f"corral.{_name}")

ONE, OTHER = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")


@pytest.fixture(scope="module")
def _shared() -> Iterator[Box]:
    with serving(described(2)) as box:
        box.home.chmod(0o755)
        yield box


@pytest.fixture
def shared(_shared: Box) -> Iterator[Box]:
    """A server of root's that every user may use."""
    yield _shared
    _shared.clear()


@pytest.fixture
def stoppable(new_box: Callable[[str], Box]) -> Box:
    """Such a server for one test alone, which stops it."""
    box = new_box(described(2))
    box.home.chmod(0o755)
    box.up()
    return box


def as_user(user: pwd.struct_passwd, box: Box, ask: Callable[[Client], Any]) -> Any:
    """What `ask` returns (as JSON can carry it) in a process that is that user; an error of Corral's is its message."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            # Other tests' files, which a test with a low limit has no room for.
            os.closerange(3, write_fd)
            os.closerange(write_fd + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            os.setgroups(os.getgrouplist(user.pw_name, user.pw_gid))
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            os.chdir("/")
            os.environ.clear()
            os.environ.update({"PATH": "/usr/bin:/bin", "MINE": user.pw_name})
            with Client(box.home) as client:
                try:
                    answer = ask(client)
                except CorralError as error:
                    answer = f"{type(error).__name__}: {error}"
            os.write(write_fd, json.dumps(answer).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write_fd)
    with os.fdopen(read_fd) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(said)


def type_as(user: pwd.struct_passwd, box: Box, *words: str, **environ: str) -> tuple[int, str]:
    """What `corral` answers that user: its exit code and all it writes, its lines joined.

    In a fork, for the interpreter of these tests may lie where no other user can read it.
    """
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.dup2(write_fd, 1)
            os.dup2(write_fd, 2)
            os.close(read_fd)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            os.chdir("/")
            os.environ.clear()
            os.environ.update({"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "CORRAL_HOME": str(box.home)})
            os.environ.update(environ)
            sys.argv = ["corral", *words]
            code = main()
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(write_fd)
    with os.fdopen(read_fd) as pipe:
        said = " ".join(pipe.read().split())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def output_of(client: Client, script: str, **options: Any) -> list[str]:
    job = client.submit(["/bin/sh", "-c", script], **options)
    job.wait(timeout_s=PATIENCE_S)
    return "".join(job.logs()).splitlines()


def test_a_job_runs_as_the_user_who_submitted_it_with_that_users_groups(shared: Box) -> None:
    for user in (ONE, OTHER):
        said = as_user(
            user, shared, lambda client: output_of(client, "id -u; id -g; id -G; echo $MINE; cd $CORRAL_SCRATCH")
        )
        groups = dict.fromkeys([user.pw_gid, *os.getgrouplist(user.pw_name, user.pw_gid)])
        assert said == [str(user.pw_uid), str(user.pw_gid), " ".join(map(str, groups)), user.pw_name]


def test_output_goes_to_files_as_the_jobs_user_and_never_over_anothers(shared: Box) -> None:
    shelf = shared.home / "shelf"
    shelf.mkdir()
    shelf.chmod(0o1777)
    (shelf / "roots").write_text("precious")
    (shelf / "trap").symlink_to(shelf / "roots")

    def wrote(client: Client, pattern: str) -> tuple[str, str | None]:
        job = client.submit(["/bin/echo", "hello"], gpus=0, name="x", output=f"{shelf}/{pattern}", workdir="/tmp")
        (row,) = job.wait(timeout_s=PATIENCE_S)
        return row.phase, row.reason

    assert as_user(ONE, shared, lambda client: wrote(client, "%x.%u")) == ["SUCCEEDED", None]
    assert (shelf / f"x.{ONE.pw_name}").read_text() == "hello\n"
    assert (shelf / f"x.{ONE.pw_name}").stat().st_uid == ONE.pw_uid
    for name in ("roots", "trap", f"x.{ONE.pw_name}"):
        phase, reason = as_user(OTHER, shared, partial(wrote, pattern=name))
        assert (phase, reason.startswith(f"cannot write the output to {shelf}/{name}: ")) == ("FAILED", True)
    assert (shelf / "roots").read_text() == "precious"


SAVES_AND_FAILS = """
mkdir "$CORRAL_CHECKPOINT_DIR" && cd "$CORRAL_CHECKPOINT_DIR" && echo state > latest
echo "restore ${CORRAL_RESTORE-none}"; exit 3
"""


def test_checkpoints_are_looked_for_with_the_rights_of_the_jobs_user_and_stay_that_users(shared: Box) -> None:
    secret = shared.home / "secret"
    secret.mkdir()
    (secret / "latest").write_text("of root")
    secret.chmod(0o700)
    told = partial(output_of, script='echo "${CORRAL_RESTORE-none}"', checkpoint_dir=str(secret))
    assert as_user(ONE, shared, told)[-1] == "none"
    secret.chmod(0o755)
    assert as_user(ONE, shared, told)[-1] == f"{secret}/latest"

    def failed(client: Client) -> str:
        job = client.submit(["/bin/sh", "-c", SAVES_AND_FAILS], checkpoint_signal="USR1")
        job.wait(timeout_s=PATIENCE_S)
        return job.id

    scratch = shared.home / "scratch" / as_user(ONE, shared, failed)
    mark = scratch.parent / f".{scratch.name}.kept"
    shared.until(lambda: mark.exists() and [path.name for path in scratch.glob("*")] == ["checkpoint"])
    assert (scratch.stat().st_uid, scratch.stat().st_mode & 0o777, mark.stat().st_uid) == (ONE.pw_uid, 0o700, 0)
    assert (scratch / "checkpoint/latest").read_text() == "state\n"


def test_a_user_may_neither_end_nor_read_nor_hold_what_is_anothers(shared: Box) -> None:
    job = as_user(ONE, shared, lambda client: client.submit(["/bin/sleep", "60"]).id)
    assert f"belongs to {ONE.pw_name}" in as_user(OTHER, shared, lambda client: client.jobs.cancel(job))
    assert "Forbidden" in as_user(OTHER, shared, lambda client: "".join(client.jobs.logs(job)))
    assert "Forbidden" in as_user(OTHER, shared, lambda client: client.devices.cordon(0) and "cordoned")
    assert as_user(ONE, shared, lambda client: client.jobs.cancel(job)) == [job]
    assert (shared.ended(job)["user"], shared.job(job)["phase"]) == (ONE.pw_name, "CANCELLED")


def test_why_a_job_failed_is_told_to_who_may_read_its_log(shared: Box) -> None:
    def fail(client: Client) -> str:
        job = client.submit(
            ["/bin/sh", "-c", "echo 'OSError: [Errno 28] No space left on device: /secret/model'; exit 2"]
        )
        job.wait(timeout_s=PATIENCE_S)
        return job.id

    job_id = as_user(ONE, shared, fail)

    def told(client: Client) -> list[str | None]:
        answer = client.jobs.why(job_id)
        return [answer.phase, answer.diagnosis]

    phase, diagnosis = as_user(ONE, shared, told)
    assert (phase, "is full" in diagnosis) == ("FAILED", True)
    assert as_user(OTHER, shared, told) == ["FAILED", None]
    with Client(shared.home) as root:
        assert root.jobs.why(job_id).diagnosis == diagnosis


def test_a_job_reads_what_it_holds_and_opens_its_own_output(shared: Box) -> None:
    script = "cat $CORRAL_SCRATCH/config/resource.txt > /dev/stderr && echo read > /dev/stdout"
    said = as_user(ONE, shared, lambda client: output_of(client, script, gpus=0.5))
    assert said[-2:] in [[f"CUDA.SHARES_SHARES={uuid(index)}:0.5", "read"] for index in range(2)]


def test_limits_are_lowered_for_a_job_and_never_raised(shared: Box) -> None:
    def with_low_limit(client: Client) -> list[str]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        return output_of(client, "ulimit -S -n")

    assert as_user(ONE, shared, with_low_limit) == ["64"]


def test_nobody_adopts_a_process_that_is_not_theirs(shared: Box) -> None:
    assert f"runs as user id {os.getuid()}" in as_user(ONE, shared, lambda client: client.adopt(os.getppid()).id)


def test_who_means_jobs_of_others_or_everybodys_history_is_told_who_may(shared: Box) -> None:
    job = as_user(ONE, shared, lambda client: client.submit(["/bin/sleep", "60"], name="theirs").id)
    for words in (("--name", "theirs"), ("--name", "theirs", "--yes")):
        code, said = type_as(OTHER, shared, "cancel", *words)
        assert (code, "none of your jobs to cancel matches, but jobs of other users do" in said) == (1, True)
    assert as_user(ONE, shared, lambda client: client.jobs.cancel(job)) == [job]
    code, said = type_as(ONE, shared, "simulate", "journal")
    assert (code, "for those who may read the server's files" in said) == (2, True)


def test_doctor_tells_a_user_of_anothers_server_that_nothing_is_amiss_with_its_files(shared: Box) -> None:
    (shared.home / "config.yaml").chmod(0o600)
    code, said = type_as(ONE, shared, "doctor")
    assert (code, "failure" in said) == (0, False)
    assert f"{shared.home} belongs to root; you may use its server" in said
    assert f"ledger only the server's owner may read {shared.home}/ledger.db" in said
    assert "move the file away" not in said


def test_down_and_up_tell_a_user_of_anothers_server_whose_it_is(shared: Box) -> None:
    pid = (shared.home / "corral.pid").read_text().strip()
    code, said = type_as(ONE, shared, "down")
    assert (code, f"server {pid} in {shared.home} belongs to root; only root can stop it" in said) == (1, True)
    for words in (["up"], ["up", "--detach"]):
        code, said = type_as(ONE, shared, *words)
        assert (code, f"{shared.home} belongs to root, and its server (pid {pid}) is running" in said) == (1, True)
    assert "free" in type_as(ONE, shared, "status")[1]


def test_without_an_answer_a_user_is_not_told_that_no_server_runs_in_anothers_home(stoppable: Box) -> None:
    stoppable.down()
    stoppable.home.chmod(0o700)
    code, said = type_as(ONE, stoppable, "down")
    assert (code, "belongs to root, and no server there answers you" in said) == (1, True)
    code, said = type_as(ONE, stoppable, "doctor")
    assert (code, "a bug in Corral" in said, "move the file away" in said) == (1, False, False)
    code, said = type_as(ONE, stoppable, "config", "check")
    assert (code, f"you may not read or write {stoppable.home}/config.yaml" in said) == (1, True)


def test_a_home_below_a_directory_that_a_user_may_not_enter_is_taken_for_its_owners(shared: Box) -> None:
    (shared.home / "kept").mkdir(mode=0o700)
    hidden = copy(shared)
    hidden.home = shared.home / "kept" / "home"
    code, said = type_as(ONE, hidden, "down")
    assert (code, f"{hidden.home} belongs to root, and no server there answers you" in said) == (1, True)
    code, said = type_as(ONE, hidden, "doctor")
    assert (code, f"{hidden.home} belongs to root, and no server there answers you" in said) == (1, True)


def test_its_owner_stops_a_server_whose_pid_file_is_gone(stoppable: Box) -> None:
    pid = (stoppable.home / "corral.pid").read_text().strip()
    (stoppable.home / "corral.pid").unlink()
    assert f"server {pid} has stopped" in stoppable.ok("down")


def test_a_user_makes_tokens_for_nobody_else_and_sees_and_revokes_no_others(shared: Box) -> None:
    mine = as_user(ONE, shared, lambda client: to_plain(client.tokens.create()))
    assert (mine["user"], mine["scope"]) == (ONE.pw_name, "submit")
    assert f"only an administrator may create tokens for {ONE.pw_name}" in as_user(
        OTHER, shared, lambda client: client.tokens.create(ONE.pw_name).token
    )
    assert "scope admin is for administrators" in as_user(
        ONE, shared, lambda client: client.tokens.create(scope=TokenScope.ADMIN).token
    )
    assert as_user(OTHER, shared, lambda client: [row.id for row in client.tokens.list()]) == []
    assert f"you have no token {mine['id']}" in as_user(OTHER, shared, lambda client: client.tokens.revoke(mine["id"]))
    assert as_user(ONE, shared, lambda client: client.tokens.revoke(mine["id"])) == [mine["id"]]


def test_a_terminal_belongs_to_the_user_of_its_job_and_its_input_is_theirs_alone(shared: Box) -> None:
    script = "stat -c '%U %a' $(tty); echo again > /dev/tty; read line; echo got $line"

    def submitted(client: Client) -> str:
        asked = submission(["/bin/sh", "-c", script], {"gpus": 0, "workdir": "/"})
        return client.submit(replace(asked, terminal=TerminalSize(5, 40))).id

    def typed(client: Client) -> Any:
        while (progress := client.jobs.write_input(job, b"", offset=0)).state == "waiting":
            pass
        return to_plain(client.jobs.write_input(job, b"mine\r", offset=progress.offset))

    def seen(client: Client) -> str:
        client.wait(job)
        return b"".join(client.jobs.logs_bytes(job)).decode()

    job = as_user(ONE, shared, submitted)
    for ask in (
        lambda client: client.jobs.write_input(job, b"not mine", offset=0),
        lambda client: client.jobs.signal(job, "INT"),
        lambda client: client.jobs.resize_terminal(job, 1, 1),
    ):
        assert as_user(OTHER, shared, ask).startswith("Forbidden: ")
    assert as_user(ONE, shared, typed) == {"offset": 5, "state": "open"}
    assert as_user(ONE, shared, seen) == "nobody 600\r\nagain\r\nmine\r\ngot mine\r\n"


def test_a_command_inside_a_job_is_its_users_whoever_asks_and_others_may_not(shared: Box) -> None:
    def looked(client: Client) -> str:
        process = client.jobs.begin_exec(job, ["sh", "-c", "id -un; echo $MINE; echo into > /dev/stderr"])
        told = b"".join(piece for _, piece in process.output()).decode()
        assert process.exit_code == 0
        return told

    job = as_user(ONE, shared, lambda client: client.submit(["/bin/sleep", "1000"]).id)
    shared.until_phase(job, "RUNNING")
    expected = {"nobody", ONE.pw_name, "into"}
    assert expected <= set(as_user(ONE, shared, looked).split())
    with Client(shared.home) as root:
        assert expected <= set(looked(root).split())
    assert as_user(OTHER, shared, looked).startswith("Forbidden: ")
    assert [one["by"] for one in shared.json("show", job, "--json")["commands"]] == [ONE.pw_name, "root"]


def test_input_is_read_by_the_user_of_the_job(shared: Box) -> None:
    def sent(client: Client) -> str:
        asked = submission(["/bin/sh", "-c", "id -un; cat /dev/stdin"], {"gpus": 0, "workdir": "/"})
        job = client.submit(replace(asked, stdin=True)).id
        while client.jobs.write_input(job, b"words\n", offset=0, end=True).state != "closed":
            pass
        client.wait(job)
        return b"".join(client.jobs.logs_bytes(job)).decode()

    assert as_user(ONE, shared, sent) == "nobody\nwords\n"


def test_packable_jobs_of_two_users_never_share_a_gpu(shared: Box, tmp_path: Path) -> None:
    def two_running(client: Client) -> list[str]:
        jobs = [client.submit(["sleep", "600"], packable=True, gpu_mem="1G") for _ in range(2)]
        deadline = time.monotonic() + PATIENCE_S
        while any(client.jobs.get(job.id).phase != "RUNNING" for job in jobs):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return [grant.uuid for job in jobs for grant in client.jobs.get(job.id).grants]

    one, other = (as_user(user, shared, two_running) for user in (ONE, OTHER))
    assert len(set(one)) == len(set(other)) == 1
    assert set(one).isdisjoint(other)
