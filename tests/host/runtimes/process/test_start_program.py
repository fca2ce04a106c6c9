import os
import pwd
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.host.runtimes.process.process_launches import LaunchState
from tests.host.runtimes.process.conftest import PATH, Machine, alive, root_only, until

USERS = ("nobody", "daemon")


def _user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        pytest.skip(f"this machine has no user {name}")


@pytest.fixture(params=["the server's own user", "another user"])
def user(request: pytest.FixtureRequest) -> dict[str, object]:
    """Programs are executed in two ways, by who is to run them; what goes wrong must read the same."""
    if request.param == "the server's own user":
        return {}
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    nobody = _user("nobody")
    return {"uid": nobody.pw_uid, "gid": nobody.pw_gid, "groups": (nobody.pw_gid,)}


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that every user can enter, as they cannot where pytest keeps a test's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _refusal(machine: Machine, state: LaunchState) -> tuple[int | None, str]:
    """Exit code and message of a job that was not executed; the message is in its log too."""
    assert state.exit is not None
    assert (state.exit.reason, state.exit.signal, state.exit.started_at) == ("exec_failed", None, None)
    logs = list((machine.home / "logs").iterdir())
    assert logs[0].read_text() == f"corral: {state.exit.message}\n"
    return state.exit.exit_code, state.exit.message


def test_a_command_that_is_in_no_directory_of_the_path_gives_127(machine: Machine, user: dict[str, object]) -> None:
    state = machine.run("no-such-command", **user)
    assert _refusal(machine, state) == (127, f"command not found: no-such-command; looked in PATH={PATH['PATH']}")


def test_a_path_longer_than_any_message_is_told_in_part(machine: Machine, user: dict[str, object]) -> None:
    path = "/" + "x" * 100_000
    code, message = _refusal(machine, machine.run("no-such-command", env={"PATH": path}, **user))
    assert code == 127
    assert message == f"command not found: no-such-command; looked in PATH={path[:400]}... (100001 characters)"


def test_a_message_that_grows_on_its_way_to_disk_leaves_the_record_whole(machine: Machine) -> None:
    state = machine.run("no-such-command", env={"PATH": "\N{KITE}" * 400})
    assert state.exit is not None
    assert state.exit.exit_code == 127
    assert state.exit.message.startswith("command not found: no-such-command; looked in PATH=\N{KITE}")
    assert (machine.home / "launches" / "a1" / "exit").stat().st_size == 4096


def test_a_program_that_does_not_exist_gives_127(machine: Machine, user: dict[str, object]) -> None:
    state = machine.run("./train.py", workdir="/tmp", **user)
    assert _refusal(machine, state) == (127, "no such file: ./train.py, seen from /tmp")


def test_a_file_that_is_not_executable_gives_126(machine: Machine, shared: Path, user: dict[str, object]) -> None:
    (shared / "script").write_text("#!/bin/sh\n")
    code, message = _refusal(machine, machine.run(str(shared / "script"), **user))
    assert (code, message) == (
        126,
        f"cannot run {shared}/script: Permission denied; is it a file and executable (chmod +x)?",
    )


def test_a_directory_as_command_gives_126(machine: Machine, user: dict[str, object]) -> None:
    code, message = _refusal(machine, machine.run("/tmp", **user))
    assert code == 126
    assert message.startswith("cannot run /tmp: Permission denied")


def test_a_script_without_a_first_line_gives_126(machine: Machine, shared: Path, user: dict[str, object]) -> None:
    script = shared / "script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    code, message = _refusal(machine, machine.run(str(script), **user))
    assert (code, message) == (126, f"cannot run {script}: neither a program nor a script with a #! first line")


def test_a_script_with_a_missing_interpreter_gives_127(machine: Machine, shared: Path, user: dict[str, object]) -> None:
    script = shared / "script"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    code, message = _refusal(machine, machine.run("./script", workdir=str(shared), **user))
    assert (code, message) == (127, "cannot run ./script: its first line names an interpreter that does not exist")


def test_a_missing_working_directory_gives_126(machine: Machine, user: dict[str, object]) -> None:
    code, message = _refusal(machine, machine.run("true", workdir="/no/such/place", **user))
    assert (code, message) == (126, "cannot enter the working directory /no/such/place: No such file or directory")


def test_arguments_too_long_for_the_kernel_give_126(machine: Machine, user: dict[str, object]) -> None:
    code, message = _refusal(machine, machine.run("true", "x" * 200_000, **user))
    assert (code, message) == (126, "cannot run true: Argument list too long")


def test_the_program_is_looked_up_in_the_path_of_the_job(
    machine: Machine, shared: Path, user: dict[str, object]
) -> None:
    tool = shared / "tool"
    tool.write_text("#!/bin/sh\nexit 42\n")
    tool.chmod(0o755)
    state = machine.run("tool", env={"PATH": f"/no/such:{shared}"}, **user)
    assert state.exit is not None
    assert state.exit.exit_code == 42


def test_a_job_has_the_limits_it_asked_for_and_its_notes_head_the_log(
    machine: Machine, user: dict[str, object]
) -> None:
    limits = {"RLIMIT_NOFILE": 77, "RLIMIT_FSIZE": -1, "RLIMIT_HUMOUR": 1}
    name = machine.launch("sh", "-c", "ulimit -n; ulimit -f", rlimits=limits, notes=("attempt 2",), **user)
    machine.wait(name)
    assert machine.log(name).decode().splitlines() == [
        "corral: attempt 2",
        "corral: limit RLIMIT_HUMOUR is not known on this machine and stays as it is",
        "77",
        "unlimited",
    ]


def test_the_supervisor_keeps_its_own_limits_directory_and_umask(machine: Machine) -> None:
    name = machine.launch("sleep", "60", workdir="/tmp", umask=0o777, rlimits={"RLIMIT_NOFILE": 20})
    until(lambda: machine.runtime.status(name).started_at, "the start")
    supervisor = Path(f"/proc/{machine.supervisor(name)}")
    assert (supervisor / "cwd").readlink() == Path("/")
    assert (supervisor / "limits").read_text() == Path(f"/proc/{machine.zygote()}/limits").read_text()
    umask = next(line for line in (supervisor / "status").read_text().splitlines() if line.startswith("Umask"))
    assert umask != "Umask:\t0777"


def test_a_job_starts_inside_its_cgroup_and_the_supervisor_stays_outside(machine: Machine) -> None:
    if machine.runtime.means_of_killing != "cgroup":
        pytest.skip("no cgroup v2 hierarchy here that this process may write")
    name = machine.launch("sh", "-c", "grep ^0:: /proc/self/cgroup; sleep 60")
    machine.wait_for_log(name, name)
    own = next(x for x in Path("/proc/self/cgroup").read_text().splitlines() if x.startswith("0::"))
    supervisor = Path(f"/proc/{machine.supervisor(name)}/cgroup").read_text()
    assert own in supervisor.splitlines()
    machine.runtime.stop(name)
    machine.wait(name)
    cgroup = machine.runtime._cgroups.path(name)
    assert cgroup is not None
    assert not Path(cgroup).exists()


@root_only()
def test_each_of_two_users_gets_their_own_identity_log_and_scratch(machine: Machine) -> None:
    for user in map(_user, USERS):
        groups = (user.pw_gid, 12345)
        name = machine.launch(
            "sh",
            "-c",
            "grep -E '^(Uid|Gid|Groups)' /proc/self/status; kill -0 $PPID && echo mighty",
            uid=user.pw_uid,
            gid=user.pw_gid,
            groups=groups,
        )
        machine.wait(name)
        uids, gids, said_groups, *rest = [line.split()[1:] for line in machine.log(name).decode().splitlines()]
        assert uids == [str(user.pw_uid)] * 4
        assert gids == [str(user.pw_gid)] * 4
        assert sorted(map(int, said_groups)) == sorted(set(groups))
        # The shell's complaint; the supervisor is the server's and out of the job's reach.
        assert "mighty" not in str(rest)
        for path in (machine.home / "logs" / f"{name}.log", machine.home / "scratch" / name):
            assert (path.stat().st_uid, path.stat().st_gid) == (user.pw_uid, user.pw_gid)
            assert path.stat().st_mode & 0o077 == 0


def test_a_job_may_open_its_output_by_name(machine: Machine, user: dict[str, object]) -> None:
    name = machine.launch("sh", "-c", "echo out > /dev/stdout; echo err > /dev/stderr", **user)
    machine.wait(name)
    assert machine.log(name) == b"out\nerr\n"


@root_only()
def test_every_process_of_another_users_job_can_be_killed(machine_of_each_kind: Machine) -> None:
    machine, user = machine_of_each_kind, _user("nobody")
    name = machine.launch(
        "sh",
        "-c",
        "trap '' TERM; (setsid sleep 60 &) ; echo up; sleep 60",
        uid=user.pw_uid,
        gid=user.pw_gid,
        groups=(),
    )
    machine.wait_for_log(name, "up")
    pids = machine.runtime.pids(name)
    machine.runtime.stop(name)
    state = machine.wait(name)
    assert state.exit is not None
    assert state.exit.signal == signal.SIGKILL
    assert not any(alive(pid) for pid in pids)


@root_only()
def test_a_user_cannot_read_what_the_server_keeps_about_launches(machine: Machine) -> None:
    user = _user("nobody")
    launches = machine.home / "launches"
    state = machine.run("ls", str(launches), uid=user.pw_uid, gid=user.pw_gid, groups=())
    assert state.exit is not None
    assert state.exit.exit_code == 2
