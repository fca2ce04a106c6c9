"""A job of root's server has what a login of its user would have, whatever the server was given."""

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from corral import as_login
from tests.host.runtimes.process.conftest import Machine, root_only
from tests.seccomp import forbid

pytestmark = root_only()

SECRET = b"the-servers-secret"
ONE, OTHER = {"uid": 1, "gid": 1, "groups": ()}, {"uid": 2, "gid": 2, "groups": ()}
_PROCESS_KEYRING, _SESSION_KEYRING = -2, -3
_ADD_KEY = {"x86_64": 248, "aarch64": 217, "ppc64le": 269}
_NO_SETUID_FIXUP_AND_KEEP_CAPS = 1 << 2 | 1 << 4


def no_keyrings() -> bool:
    return not os.path.exists("/proc/keys") or as_login.keyring_shared() is not None


with_keyrings = pytest.mark.skipif(no_keyrings(), reason="the kernel has no keyrings for this process")


def add_key(name: bytes, keyring: int = _SESSION_KEYRING) -> None:
    number = _ADD_KEY[os.uname().machine]
    if as_login._libc.syscall(number, b"user", name, b"payload", 7, ctypes.c_long(keyring)) < 0:
        raise OSError(ctypes.get_errno(), "add_key")


def be_burdened() -> None:
    """Have all that a unit, an administrator or a login can give a server, and that is not for its jobs."""
    as_login._keyctl(as_login._JOIN_SESSION_KEYRING, None)
    add_key(SECRET)
    for path, word in (("oom_score_adj", b"300"), ("coredump_filter", b"0x7f"), ("loginuid", b"12345")):
        as_login._tell_kernel(f"/proc/self/{path}", word)
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    os.setpriority(os.PRIO_PROCESS, 0, -7)
    as_login._libc.syscall(as_login._IOPRIO_SET[os.uname().machine], 1, 0, 1 << 13 | 2)
    as_login._libc.personality(0x0040000)  # addresses are not random
    as_login._prctl(as_login._PR_SET_TIMERSLACK, 1)
    header, held = as_login._CapabilityHeader(as_login._CAPABILITY_VERSION_3, 0), (as_login._Capabilities * 2)()
    as_login._libc.capget(ctypes.byref(header), held)
    held[0].inheritable = held[0].permitted
    as_login._libc.capset(ctypes.byref(header), held)
    as_login._libc.prctl(as_login._PR_CAP_AMBIENT, 2, 0, 0, 0)  # CAP_CHOWN is kept beyond any execution
    as_login._prctl(as_login._PR_SET_SECUREBITS, _NO_SETUID_FIXUP_AND_KEEP_CAPS)


@pytest.fixture
def burdened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Its supervisors descend from a zygote that has what jobs are not to have."""
    tmp_path.chmod(0o755)
    monkeypatch.setattr(subprocess, "Popen", partial(subprocess.Popen, preexec_fn=be_burdened))
    machine = Machine(tmp_path)
    monkeypatch.undo()
    yield machine
    machine.shut()


def shown_to(machine: Machine, user: dict[str, object], command: str) -> str:
    """What a job of that user, {} for root, is shown."""
    name = machine.launch("sh", "-c", command, **user)
    state = machine.wait(name)
    assert state.exit is not None, state
    assert state.exit.exit_code == 0, machine.log(name)
    return machine.log(name).decode()


@pytest.mark.parametrize("user", [ONE, {}], ids=["a user", "root"])
def test_nothing_that_the_server_was_given_reaches_a_job(burdened: Machine, user: dict[str, object]) -> None:
    names = ("oom_score_adj", "coredump_filter", "loginuid", "personality", "timerslack_ns")
    said = shown_to(burdened, user, "; ".join(f"cat /proc/self/{name} 2>&1; echo" for name in names))
    expected = ["0", "00000033", "00000000", "50000"]
    if os.path.exists("/proc/self/loginuid"):
        expected.insert(2, "4294967295")
        assert said.split() == expected


@pytest.mark.parametrize("user", [ONE, {}], ids=["a user", "root"])
def test_a_job_is_scheduled_as_what_a_user_starts(burdened: Machine, user: dict[str, object]) -> None:
    fields = shown_to(burdened, user, "cat /proc/self/stat").rpartition(")")[2].split()
    niceness, realtime_priority, policy = fields[16], fields[37], fields[38]
    assert (niceness, realtime_priority, policy) == ("0", "0", str(os.SCHED_OTHER))
    assert shown_to(burdened, user, "ionice || true").startswith(("none", "sh:"))


def test_a_user_keeps_no_capability_whatever_the_server_would_keep(burdened: Machine) -> None:
    status = dict(line.split(":\t", 1) for line in shown_to(burdened, ONE, "cat /proc/self/status").splitlines())
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert status["Uid"].split() == ["1"] * 4


def test_root_has_no_capability_beyond_those_of_root(burdened: Machine) -> None:
    status = dict(line.split(":\t", 1) for line in shown_to(burdened, {}, "cat /proc/self/status").splitlines())
    assert {status[name] for name in ("CapInh", "CapAmb")} == {"0" * 16}


@with_keyrings
def test_a_job_has_a_session_keyring_of_its_own_without_the_servers_keys(burdened: Machine) -> None:
    for user in (ONE, OTHER):
        assert SECRET.decode() not in shown_to(burdened, user, "cat /proc/keys")
    own = [line.split() for line in shown_to(burdened, ONE, "cat /proc/keys").splitlines() if " _ses: " in line]
    # Each is of one job of the user's, whose own keyring is in it.
    assert {(line[5], line[-1]) for line in own} == {("1", "1")}


@with_keyrings
def test_a_server_whose_keyring_cannot_be_left_because_of_a_filter_runs_jobs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(subprocess, "Popen", partial(subprocess.Popen, preexec_fn=partial(forbid, "keyctl")))
    machine = Machine(tmp_path)
    for user in (ONE, {}):
        assert shown_to(machine, user, "echo ran") == "ran\n"
    machine.shut()


@with_keyrings
def test_a_user_with_as_many_keys_as_may_be_runs_jobs_that_see_no_keys_of_others(
    burdened: Machine,
) -> None:
    uid = 54321
    user: dict[str, object] = {"uid": uid, "gid": uid, "groups": ()}
    most = int(Path("/proc/sys/kernel/keys/maxkeys").read_text())
    release, held = os.pipe()
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(held)
            as_login.become(uid, uid, [])
            for number in range(most):
                try:
                    add_key(b"%d" % number)
                except OSError:
                    break
            os.write(told, b"x")
            os.read(release, 1)
        finally:
            os._exit(0)
    os.read(ready, 1)
    try:
        assert SECRET.decode() not in shown_to(burdened, user, "cat /proc/keys")
    finally:
        os.close(held)
        os.waitpid(pid, 0)


@with_keyrings
def test_a_command_that_root_has_a_user_execute_has_neither_roots_rights_nor_the_servers_keys() -> None:
    done = subprocess.run(
        as_login.command_as(1, 2, [3, 4], ["sh", "-c", "cat /proc/self/status /proc/keys /proc/self/oom_score_adj"]),
        preexec_fn=be_burdened,
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert SECRET.decode() not in done.stdout
    assert "Uid:\t1\t1\t1\t1\nGid:\t2\t2\t2\t2\n" in done.stdout
    assert "Groups:\t3 4 \n" in done.stdout
    assert "CapPrm:\t0000000000000000\n" in done.stdout
    assert done.stdout.endswith("\n0\n")


def test_a_command_that_cannot_be_executed_says_so() -> None:
    done = subprocess.run(as_login.command_as(1, 1, [], ["/nowhere/x"]), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (126, "cannot run /nowhere/x as user 1: No such file or directory\n")


@with_keyrings
@pytest.mark.parametrize("answer", [errno.ENOSYS, errno.EPERM])
def test_a_process_under_a_filter_knows_that_what_it_starts_shares_its_keyring(answer: int) -> None:
    source = Path(as_login.__file__).parents[1]
    script = (
        f"import sys; sys.path.append({str(source)!r}); from corral import as_login; print(as_login.keyring_shared())"
    )
    for filtered, said in ((True, os.strerror(answer)), (False, "None")):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", script],
            preexec_fn=partial(forbid, "keyctl", answer) if filtered else None,
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == said, done.stderr
