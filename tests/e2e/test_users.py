"""One server of root's, two Unix users: each works as themselves, and neither touches the other's work."""

import json
import os
import pwd
import resource
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from corral.client import Client
from corral.model.errors import CorralError
from tests.e2e.box import PATIENCE_S, Box, described, uuid

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as two other users")

ONE, OTHER = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")


@pytest.fixture
def shared(new_box: Callable[[str], Box]) -> Box:
    box = new_box(described(2))
    box.home.chmod(0o755)
    box.up()
    return box


def as_user(user: pwd.struct_passwd, box: Box, deed: Callable[[Client], Any]) -> Any:
    """What `deed` gives (as JSON can carry it) in a process that is that user; an error of Corral's is its message."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(os.getgrouplist(user.pw_name, user.pw_gid))
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            os.chdir("/")
            os.environ.clear()
            os.environ.update({"PATH": "/usr/bin:/bin", "MINE": user.pw_name})
            with Client(box.home) as client:
                try:
                    answer = deed(client)
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


def output_of(client: Client, script: str, **options: Any) -> list[str]:
    job = client.submit(["/bin/sh", "-c", script], **options)
    job.wait(timeout_s=PATIENCE_S)
    return b"".join(job.logs()).decode().splitlines()


def test_a_job_runs_as_the_user_who_submitted_it_with_that_users_groups(shared: Box) -> None:
    for user in (ONE, OTHER):
        said = as_user(
            user, shared, lambda client: output_of(client, "id -u; id -g; id -G; echo $MINE; cd $CORRAL_SCRATCH")
        )
        groups = dict.fromkeys([user.pw_gid, *os.getgrouplist(user.pw_name, user.pw_gid)])
        assert said == [str(user.pw_uid), str(user.pw_gid), " ".join(map(str, groups)), user.pw_name]


def test_a_user_may_neither_end_nor_read_nor_hold_what_is_anothers(shared: Box) -> None:
    job = as_user(ONE, shared, lambda client: client.submit(["/bin/sleep", "60"]).id)
    assert f"belongs to {ONE.pw_name}" in as_user(OTHER, shared, lambda client: client.jobs.cancel(job))
    assert "Forbidden" in as_user(OTHER, shared, lambda client: b"".join(client.jobs.logs(job)).decode())
    assert "Forbidden" in as_user(OTHER, shared, lambda client: client.devices.cordon(0) and "cordoned")
    assert as_user(ONE, shared, lambda client: client.jobs.cancel(job)) == [job]
    assert (shared.ended(job)["user"], shared.job(job)["phase"]) == (ONE.pw_name, "CANCELLED")


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
