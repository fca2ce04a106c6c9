"""Who asks: the kernel says it of a Unix socket's peer, a token says it on TCP."""

import hmac
import os
import pwd
import secrets
import stat
import time
from pathlib import Path

from anyio import to_thread
from starlette.requests import Request

from corral.access.caller import Caller
from corral.api.errors import Unauthenticated
from corral.api.peer import Peer
from corral.model.errors import Forbidden, Refused

TOKEN_LEAST_LENGTH = 16
_REMEMBER_USER_S = 60.0


class Authenticator:
    """Tells the `Caller` of a request, or refuses it.

    A server that is not root's cannot run work as anyone else, so it listens to its own user and to root only.
    `token` None answers nobody on TCP.
    """

    def __init__(self, *, token: str | None, server_uid: int | None = None) -> None:
        self._server_uid = os.geteuid() if server_uid is None else server_uid
        self._token = None if token is None else token.encode()
        self._known: dict[tuple[int, int], tuple[float, Caller]] = {}

    async def caller_of(self, request: Request) -> Caller:
        """Who asks. Raises Unauthenticated when nobody is known to, Forbidden when this server is not for them."""
        state = request.scope.get("state", {})
        if "peer" not in state:
            raise Unauthenticated("this server cannot tell who asks, so it answers nobody; use its Unix socket")
        peer: Peer | None = state["peer"]
        if peer is None:
            self._check_token(request.headers.get("authorization", ""))
            return await self._caller(self._server_uid, os.getegid())
        if self._server_uid not in (0, peer.uid) and peer.uid != 0:
            mine = _user_name(self._server_uid)
            raise Forbidden(
                f"this server is {mine}'s and runs jobs as {mine} only; ask an administrator for a server that runs "
                f"as root, or start your own with corral up"
            )
        return await self._caller(peer.uid, peer.gid)

    async def _caller(self, uid: int, gid: int) -> Caller:
        known = self._known.get((uid, gid))
        if known is not None and time.monotonic() - known[0] < _REMEMBER_USER_S:
            return known[1]
        # Users and groups may live in a directory service that takes its time to answer.
        caller = await to_thread.run_sync(look_up, uid, gid, uid in (0, self._server_uid))
        self._known[uid, gid] = (time.monotonic(), caller)
        return caller

    def _check_token(self, authorization: str) -> None:
        scheme, _, given = authorization.partition(" ")
        if self._token is None:
            raise Unauthenticated("this server has no token and answers nobody on TCP; use its Unix socket")
        if scheme.lower() != "bearer":
            raise Unauthenticated(
                "on TCP a token is needed: set CORRAL_TOKEN to what the file `token` of the server's home holds, "
                "or send it in the header `Authorization: Bearer TOKEN`"
            )
        if not hmac.compare_digest(given.strip().encode(errors="surrogateescape"), self._token):
            raise Unauthenticated("this is not the token of this server; it is in the file `token` of its home")


def look_up(uid: int, gid: int, admin: bool) -> Caller:
    """The caller with this uid and all groups of that user; `gid` is taken only for a uid that has no user."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return Caller(str(uid), uid, gid, (gid,), admin)
    groups = tuple(sorted(os.getgrouplist(user.pw_name, user.pw_gid)))
    return Caller(user.pw_name, uid, user.pw_gid, groups, admin)


def ensure_token(path: Path) -> str:
    """The token in the file, which is made with a fresh one when there is none: mode 0600, whole or not at all.

    Raises Refused when others may read the file, or when what is in it is too short to be a token.
    """
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(fd)
        os.replace(fresh, path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise Refused(f"others may read the token in {path}; make it yours alone: chmod 600 {path}")
    token = path.read_text().strip()
    if len(token) < TOKEN_LEAST_LENGTH:
        raise Refused(
            f"the token in {path} has {len(token)} characters and must have at least {TOKEN_LEAST_LENGTH}; "
            f"remove the file to have one made"
        )
    return token


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
