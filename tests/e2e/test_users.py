"""One server of root's, two Unix users: each works as themselves, and neither touches the other's work."""

import json
import os
import pwd
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.box import CORRAL, PATIENCE_S, Box, described

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as two other users")

ONE, OTHER = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")


@pytest.fixture
def shared(new_box: Callable[[str], Box]) -> Iterator[Box]:
    box = new_box(described(2))
    box.home.chmod(0o755)
    box.up()
    return box


def as_user(box: Box, user: pwd.struct_passwd, *words: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "CORRAL_HOME": str(box.home), "MINE": user.pw_name}
    return subprocess.run(
        [CORRAL, *words],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=os.getgrouplist(user.pw_name, user.pw_gid),
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def can_run_corral() -> bool:
    done = subprocess.run([CORRAL, "version"], user=ONE.pw_uid, group=ONE.pw_gid, capture_output=True, cwd="/")
    return done.returncode == 0


def test_a_job_runs_as_the_user_who_submitted_it_with_that_users_groups(shared: Box) -> None:
    if not can_run_corral():
        pytest.skip("the checkout is in a directory that other users cannot enter")
    for user in (ONE, OTHER):
        done = as_user(shared, user, "run", "--", "sh", "-c", "id -u; id -g; id -G; echo $MINE")
        groups = " ".join(map(str, dict.fromkeys([user.pw_gid, *os.getgrouplist(user.pw_name, user.pw_gid)])))
        assert done.stdout.split("\n")[:4] == [str(user.pw_uid), str(user.pw_gid), groups, user.pw_name], done.stderr


def test_a_user_may_neither_end_nor_read_what_is_anothers(shared: Box) -> None:
    if not can_run_corral():
        pytest.skip("the checkout is in a directory that other users cannot enter")
    job = json.loads(as_user(shared, ONE, "submit", "--json", "--", "sleep", "60").stdout)["id"]
    refused = as_user(shared, OTHER, "cancel", job)
    assert refused.returncode != 0
    assert f"belongs to {ONE.pw_name}" in refused.stderr
    assert as_user(shared, OTHER, "logs", job).returncode != 0
    assert as_user(shared, OTHER, "cordon", "0").returncode != 0
    assert as_user(shared, ONE, "cancel", job).returncode == 0
    assert shared.ended(job)["user"] == ONE.pw_name


def test_limits_are_lowered_never_raised_and_the_log_says_so(shared: Box) -> None:
    if not can_run_corral():
        pytest.skip("the checkout is in a directory that other users cannot enter")
    script = f"ulimit -S -n 64; exec {CORRAL} run -- sh -c 'ulimit -S -n'"
    done = subprocess.run(
        ["sh", "-c", script],
        user=ONE.pw_uid,
        group=ONE.pw_gid,
        env={"PATH": "/usr/bin:/bin", "CORRAL_HOME": str(shared.home)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout.split()[-1] == "64", done.stderr
