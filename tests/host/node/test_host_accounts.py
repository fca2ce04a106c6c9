"""Accounts of a host whose users are another server's: who can run jobs there, and as whom they run."""

import json
import os
import pwd
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.errors import NodeLacks
from corral.core.model.runs.launch import Launch, log_mark
from corral.core.ports.host import Credentials, JobUser
from corral.host.node.host_accounts import HostAccounts
from tests.host.node.conftest import a_launch

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")

DAEMON = pwd.getpwnam("daemon")
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def accounts() -> Iterator[HostAccounts]:
    made = HostAccounts(lambda: None)
    yield made
    made.close()


def of(name: str, uid: int) -> Launch:
    """A launch of a user's job, as a server sends it that knows the user by this number."""
    launch = a_launch(1, "/bin/true")
    spec = replace(launch.job.spec, user=name, uid=uid, gid=uid, groups=(uid, 7))
    return replace(launch, job=replace(launch.job, spec=spec), env=(("HOME", "/home/at-the-server"),))


def as_nobody(ask: Callable[[], Any]) -> Any:
    """What `ask` returns (as JSON can carry it) in a process that is nobody's."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY.pw_gid)
            os.setuid(NOBODY.pw_uid)
            os.write(write_fd, json.dumps(ask()).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write_fd)
    with os.fdopen(read_fd) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(said)


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        (JobUser("no-such-user", 4711), "there is no account no-such-user"),
        (JobUser("4711", 4711), "there is no account 4711"),
        (JobUser("root", 1000), "root is root there, and is not at the server"),
        (JobUser("nobody", NOBODY.pw_uid), f"the home of nobody there, {NOBODY.pw_dir}, cannot be used"),
        (JobUser("a\x00b", 1), "there is no account a\x00b"),
    ],
)
def test_a_user_without_a_usable_account_cannot_run_jobs(accounts: HostAccounts, user: JobUser, reason: str) -> None:
    (lack,) = accounts.lacks((user,))
    assert lack is not None
    assert lack.startswith(reason)
    with pytest.raises(NodeLacks, match="cannot run there"):
        accounts.on_this_host(of(user.name, user.uid or 0))


def test_a_job_gets_the_numbers_and_the_home_of_the_account_and_keeps_its_servers_mark(accounts: HostAccounts) -> None:
    sent = of("daemon", 4711)
    here = accounts.on_this_host(sent)
    spec = here.job.spec
    assert (spec.uid, spec.gid) == (DAEMON.pw_uid, DAEMON.pw_gid)
    assert set(spec.groups or ()) == set(os.getgrouplist("daemon", DAEMON.pw_gid))
    assert dict(here.env)["HOME"] == DAEMON.pw_dir
    assert here.log_mark == log_mark(sent.job)
    assert accounts.as_it_runs(here) == here
    assert accounts.credentials(Credentials(4711, 4711, (), "daemon")) == Credentials(
        DAEMON.pw_uid, DAEMON.pw_gid, tuple(sorted(os.getgrouplist("daemon", DAEMON.pw_gid))), "daemon"
    )


def test_what_runs_of_a_user_whose_account_is_gone_is_nobodys_and_never_roots(accounts: HostAccounts) -> None:
    assert accounts.as_it_runs(of("no-such-user", 0)).job.spec.uid == NOBODY.pw_uid


def test_files_of_a_user_without_an_account_are_not_looked_at(accounts: HostAccounts) -> None:
    with pytest.raises(NodeLacks, match="no account"):
        accounts.credentials(Credentials(0, 0, (), "no-such-user"))


def test_an_agent_that_is_not_roots_runs_the_jobs_of_one_user() -> None:
    users = (JobUser("nobody", 1), JobUser("alice", 2))
    own, other = as_nobody(lambda: HostAccounts(lambda: None).lacks(users))
    assert own is None
    assert "so all jobs there run as nobody" in other
    # A server of one user sends the jobs of that user alone, whatever the account there is called.
    assert as_nobody(lambda: HostAccounts(lambda: "alice").lacks(users)) == [None, None]
