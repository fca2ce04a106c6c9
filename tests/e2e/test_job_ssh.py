"""`corral ssh` with a real ssh, scp and sshd: into a job, on keys of its own."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from corral.client import Client
from tests.e2e.box import CORRAL, Box, described
from tests.e2e.test_forward import free_port
from tests.e2e.test_users import as_user

SSHD = shutil.which("sshd", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))
UNPACKED = None if SSHD is None else Path(SSHD).parents[2]
UID = 47_110

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a user"),
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="there is no OpenSSH here"),
]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A server on a machine that has the users alice and sshd."""
    box = Box(described(2))
    box.home.chmod(0o755)
    users = {"alice": (UID, box.home / "alice", "/bin/sh"), "sshd": (UID + 1, "/nonexistent", "/usr/sbin/nologin")}
    (box.home / "alice").mkdir()
    os.chown(box.home / "alice", UID, UID)
    for name in ("passwd", "group"):
        lines = {"passwd": "{}:x:{}:{}::{}:{}\n", "group": "{}:x:{}:\n"}[name]
        text = Path("/etc", name).read_text()
        text += "".join(lines.format(user, uid, uid, home, shell) for user, (uid, home, shell) in users.items())
        (box.home / name).write_text(text)
    mounts = "; ".join(f"mount --bind {box.home / name} /etc/{name}" for name in ("passwd", "group"))
    up = ["unshare", "--mount", "sh", "-c", f'{mounts}; exec "$@"', "sh", CORRAL, "up", "--detach"]
    subprocess.run([*up, "--mock", str(box.mock)], env=box.env, check=True, capture_output=True, timeout=100)
    box.env["HOME"] = str(box.home / "user")
    yield box
    box.discard()


@pytest.fixture
def job(box: Box) -> Iterator[str]:
    """A job of alice's that has a GPU."""
    alice = pwd.struct_passwd(("alice", "x", UID, UID, "", "/", "/bin/sh"))
    libraries = "" if UNPACKED is None else os.pathsep.join(map(str, UNPACKED.glob("usr/lib/*-linux-gnu")))

    def submitted(client: Client) -> str:
        os.environ["PATH"] = f"{Path(SSHD or '').parent}:/usr/bin:/bin"
        os.environ.update({"LD_LIBRARY_PATH": libraries, "MINE": 'a "b" \\c', "LINES": "two\nlines"})
        return client.submit(["/bin/sleep", "1000"], gpus=1).id

    job = as_user(alice, box, submitted)
    box.until_phase(job, "RUNNING")
    yield job
    box.clear()


def in_job(box: Box, job: str, *words: str) -> str:
    done = box.run("ssh", job, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_has_the_user_the_gpus_the_variables_and_the_limits_of_the_job(box: Box, job: str) -> None:
    said = in_job(box, job, "id -un; echo $CUDA_VISIBLE_DEVICES; env; tail -1 /proc/self/cgroup").splitlines()
    inside = box.ok("exec", job, "--", "tail", "-1", "/proc/self/cgroup")
    assert (*said[:2], said[-1]) == ("alice", box.job(job)["devices"][0], inside.strip())
    assert 'MINE=a "b" \\c' in said
    assert box.run("ssh", job, "exit 7").returncode == 7


def test_ssh_and_scp_and_a_forwarded_port_work_by_an_entry_of_the_users_configuration(box: Box, job: str) -> None:
    config, sent, back = (box.home / name for name in ("config", "sent", "back"))
    config.write_text(box.ok("ssh", "--config", job))
    sent.write_bytes(os.urandom(3_000_000))
    name = f"corral-{job}"

    def run(*words: str) -> None:
        done = subprocess.run([words[0], "-F", config, *words[1:]], env=box.env, capture_output=True, timeout=100)
        assert done.returncode == 0, done.stderr

    run("scp", str(sent), f"{name}:there")
    run("scp", f"{name}:there", str(back))
    assert back.read_bytes() == sent.read_bytes()
    assert (box.home / "alice" / "there").stat().st_uid == UID
    with socket.create_server(("127.0.0.1", 0)) as server:
        local, port = free_port(), server.getsockname()[1]
        tunnel = [
            "ssh",
            "-F",
            str(config),
            "-o",
            "ExitOnForwardFailure=yes",
            "-N",
            "-L",
            f"{local}:127.0.0.1:{port}",
            name,
        ]
        with subprocess.Popen(tunnel, env=box.env, stderr=subprocess.PIPE) as ssh:
            with box.until(lambda: _connected(local)) as near, server.accept()[0] as far:
                near.sendall(b"through")
                assert far.recv(7) == b"through"
            ssh.terminate()


def _connected(port: int) -> socket.socket | None:
    with suppress(OSError):
        return socket.create_connection(("127.0.0.1", port), 60)
    return None


def test_keys_are_of_one_job_and_go_with_it(box: Box, job: str) -> None:
    in_job(box, job, "true")
    (made,) = (box.home / "user" / ".ssh" / "corral").glob(f"*/{job}")
    assert {(path.stat().st_mode & 0o777, path.stat().st_uid) for path in made.iterdir()} == {(0o600, 0)}
    assert made.stat().st_mode & 0o777 == 0o700
    scratch = Path(box.ok("exec", job, "--", "sh", "-c", "echo $CORRAL_SCRATCH").strip())
    (there,) = (scratch / ".corral-ssh").iterdir()
    assert {(path.stat().st_mode & 0o777, path.stat().st_uid) for path in there.iterdir()} == {(0o600, UID)}
    box.ok("cancel", job)
    box.ended(job)
    refused = box.run("ssh", job, "true")
    assert (refused.returncode, "has ended" in refused.stderr, made.exists()) == (2, True, False)
    box.until(lambda: not scratch.exists())


def test_another_key_and_another_host_are_refused(box: Box, job: str) -> None:
    config = box.home / "config"
    config.write_text(box.ok("ssh", "--config", job))
    (made,) = (box.home / "user" / ".ssh" / "corral").glob(f"*/{job}")
    other = box.home / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    entry = config.read_text()
    for wrong, said in (
        (entry.replace(str(made / "key"), str(other)), "Permission denied (publickey)"),
        (entry.replace(str(made / "known_hosts"), str(box.home / "none")), "Host key verification failed"),
    ):
        config.write_text(wrong)
        ssh = ["ssh", "-F", str(config), "-o", "BatchMode=yes", f"corral-{job}", "true"]
        done = subprocess.run(ssh, env=box.env, capture_output=True, text=True, timeout=100)
        assert (done.returncode, said in done.stderr) == (255, True), done.stderr


def test_a_host_without_sshd_is_told_of(box: Box) -> None:
    job = box.submit("--env", "PATH=/usr/bin:/bin", "--", "/bin/sleep", "1000")
    box.until_phase(job, "RUNNING")
    if shutil.which("sshd", path="/usr/sbin:/usr/bin") is None:
        done = box.run("ssh", job, "true")
        assert (done.returncode, "there is no sshd on" in done.stderr) == (255, True), done.stderr
    box.clear()
