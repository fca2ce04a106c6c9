"""The accounts of users on this host. Jobs of a server on another host run as their users by name.

The numbers of users and groups that a server sends are those of its own host. They are replaced by those of the account
of the same name here, before anything is done for the user.
"""

import os
import pwd
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import replace

from corral.core.model.errors import NodeLacks
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.notification import Notification
from corral.core.model.runs.launch import Launch, log_mark
from corral.core.ports.host import Credentials, JobUser
from corral.unix_peer import user_name

LOOK_S = 3.0
"""The time limit for looking at an account: user names and homes may come over the network."""

_LOOKS = 4
_NOBODY = 65534


class HostAccounts:
    """Implements `corral.core.ports.node.AccountChecks`. Thread-safe.

    As root, the agent runs a job as the account of its user's name. Otherwise it runs the jobs of one user: all that
    its server sends, if that server has only one user too.
    """

    def __init__(self, only_user: Callable[[], str | None]) -> None:
        """`only_user` returns the one user whose jobs the server runs; None if it runs those of all users."""
        self._only_user = only_user
        self._root = os.geteuid() == 0
        self._looks = ThreadPoolExecutor(_LOOKS, "accounts")

    def lacks(self, users: tuple[JobUser, ...]) -> tuple[str | None, ...]:
        """Return why no job of each user can run here, None if it can. Implements the port."""
        return tuple(map(self._lack, users))

    def on_this_host(self, launch: Launch) -> Launch:
        """Return the launch for its user's account here. Raises NodeLacks if the user's jobs cannot run here."""
        spec = launch.job.spec
        lack = self._lack(JobUser(spec.user, spec.uid))
        if lack is not None:
            raise NodeLacks(f"jobs of {spec.user} cannot run there: {lack}")
        try:
            return self._as(launch, self._account(spec.user))
        except KeyError:
            raise NodeLacks(f"jobs of {spec.user} cannot run there: the account is gone") from None

    def as_it_runs(self, launch: Launch) -> Launch:
        """Return a launch that was started before, for its user's account here; for nobody's if there is none now."""
        try:
            account = self._account(launch.job.spec.user)
        except KeyError:
            account = None
        return self._as(launch, account, missing=account is None)

    def credentials(self, who: Credentials | None) -> Credentials | None:
        """Return the numbers of a user here. Raises NodeLacks if there is no such account."""
        if who is None or not self._root:
            return None
        try:
            account = pwd.getpwnam(who.name)
        except (KeyError, ValueError):
            raise NodeLacks(f"there is no account {who.name!r:.80}") from None
        return Credentials(account.pw_uid, account.pw_gid, _groups(account), who.name)

    def notification(self, one: Notification) -> Notification:
        """Return a notification for its user's account here. Raises NodeLacks if there is none."""
        who = self.credentials(Credentials(0, 0, (), one.user))
        if who is None:
            return replace(one, uid=None, gid=None, groups=())
        return replace(one, uid=who.uid, gid=who.gid, groups=who.groups)

    def close(self) -> None:
        """Stop looking; what hangs is left behind."""
        self._looks.shutdown(wait=False, cancel_futures=True)

    def _lack(self, user: JobUser) -> str | None:
        if not self._root:
            own = user_name(os.geteuid())
            if self._only_user() is None and user.name != own:
                return f"its agent is not root's, so all jobs there run as {own}"
            return None
        look = self._looks.submit(_lack_of, user)
        try:
            return look.result(LOOK_S)
        except TooLate:
            # A look that has not begun is given up: those behind one that hangs would be kept for ever.
            look.cancel()
            return f"the account of {user.name} there could not be looked at within {LOOK_S:g} s"

    def _account(self, name: str) -> pwd.struct_passwd | None:
        return pwd.getpwnam(name) if self._root else None

    def _as(self, launch: Launch, account: pwd.struct_passwd | None, *, missing: bool = False) -> Launch:
        """Return the launch with the numbers and the home of an account; None is the agent's own."""
        spec = launch.job.spec
        uid: int | None = None
        gid: int | None = None
        groups: tuple[int, ...] = ()
        home: str | None = None
        if missing:
            uid, gid, groups = _NOBODY, _NOBODY, ()
        elif account is None:
            home = pwd.getpwuid(os.geteuid()).pw_dir if _has_name(os.geteuid()) else None
        else:
            uid, gid, groups, home = account.pw_uid, account.pw_gid, _groups(account), account.pw_dir
        job: Job = replace(launch.job, spec=replace(spec, uid=uid, gid=gid, groups=groups))
        env = dict(launch.env)
        if home is not None:
            # The submitter's home is a path of the server's host.
            env["HOME"] = home
        return replace(launch, job=job, env=tuple(sorted(env.items())), mark=launch.mark or log_mark(launch.job))


def _lack_of(user: JobUser) -> str | None:
    """Return why no job of a user can run on this host as the account of that name; None if it can."""
    try:
        account = pwd.getpwnam(user.name)
    except (KeyError, ValueError):
        return f"there is no account {user.name}"
    if account.pw_uid == 0 and user.uid != 0:
        return f"{user.name} is root there, and is not at the server"
    try:
        home = os.stat(account.pw_dir)
    except OSError as error:
        return f"the home of {user.name} there, {account.pw_dir}, cannot be used: {error.strerror}"
    if not stat.S_ISDIR(home.st_mode):
        return f"the home of {user.name} there, {account.pw_dir}, is not a directory"
    if user.uid is not None and home.st_uid == user.uid != account.pw_uid:
        return (
            f"{user.name} is user id {account.pw_uid} there and {user.uid} at the server, and the home "
            f"{account.pw_dir} belongs to {user.uid}: it is on a shared file system; give the user one id on all hosts"
        )
    return None


def _groups(account: pwd.struct_passwd) -> tuple[int, ...]:
    return tuple(sorted(os.getgrouplist(account.pw_name, account.pw_gid)))


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
