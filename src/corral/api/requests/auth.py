"""Authentication: the kernel names the peer of a Unix socket. On TCP, a token names the user.

The user and their groups are looked up when a request arrives.
"""

import hmac
import os
import pwd
import re
import secrets
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from anyio import to_thread
from starlette.requests import HTTPConnection

from corral.api.answers.errors import Unauthenticated
from corral.api.requests.origins import must_be_of_no_other_page
from corral.api.requests.request_turns import answer_for
from corral.clock import Clock, SystemClock
from corral.core.access.caller import Caller
from corral.core.access.token_digest import digest_of
from corral.core.model.errors import Forbidden, Refused
from corral.core.model.token import Token, TokenScope
from corral.core.ports.ledger import TokenStore
from corral.files import read_whole
from corral.unix_peer import Peer, user_name

TOKEN_LEAST_LENGTH = 16
TOKEN_MOST_LENGTH = 1024
_REMEMBER_USER_S = 60.0
_STAMP_AGE_S = 1.0
"""The longest delay until a change of the user files is noticed. A check per request takes a tenth of its time."""

_USER_FILES = ("/etc/passwd", "/etc/group")

PROXIED_TOKEN = "x-corral-token"
"""The header of a token on the way through an API server's proxy, which keeps Authorization to itself."""

_PROXIED = re.compile(r"/api/v1/namespaces/[^/]+/services/[^/]+/proxy/")
"""The path by which such a request came. The API server writes it."""

Stamp = tuple[tuple[int, int] | None, ...]


class Sessions(Protocol):
    """Sessions of browsers. Each session has a token, whose secret comes in a cookie."""

    def secret_in(self, connection: HTTPConnection) -> str | None:
        """Return the secret of a request's session, None without a session. Raises Forbidden if a page of another site
        sent the request.
        """
        ...

    def digest_of(self, secret: str, connection: HTTPConnection) -> str:
        """Return the digest of the session's token. Raises Forbidden if sessions are not valid on this connection."""
        ...

    def must_be_of(self, caller: Caller, connection: HTTPConnection) -> None:
        """Raise Forbidden if the process of another user sends the session."""
        ...


class Authenticator:
    """Finds the `Caller` of a request, or refuses the request.

    A server that does not run as root cannot run jobs as other users. So it serves only its own user and root, and
    accepts only their tokens. `token` is the server's own token, which stands for the server's user; None if it has
    none. Without `sessions` no cookie counts.
    """

    def __init__(
        self,
        *,
        token: str | None,
        tokens: TokenStore | None = None,
        clock: Clock | None = None,
        server_uid: int | None = None,
        sessions: Sessions | None = None,
    ) -> None:
        self._server_uid = os.geteuid() if server_uid is None else server_uid
        self._own_digest = None if token is None else digest_of(token)
        self._tokens = tokens
        self._clock = clock or SystemClock()
        self._sessions = sessions
        self._known: dict[tuple[int, int], tuple[float, Stamp, Caller]] = {}
        self._stamp: tuple[float, Stamp] = (float("-inf"), ())

    async def caller_of(self, request: HTTPConnection) -> Caller:
        """The caller of a request. The rest of the request counts as this user's.

        Raises Unauthenticated if the caller is unknown, Forbidden if this server does not serve the user.
        """
        caller = await self._found(request)
        answer_for(caller.user)
        return caller

    async def _found(self, request: HTTPConnection) -> Caller:
        state = request.scope.get("state", {})
        if "peer" not in state:
            raise Unauthenticated("this server cannot tell who you are here; use its Unix socket")
        peer: Peer | None = state["peer"]
        if peer is None:
            return await self._holder_at(request)
        # A browser behind a tunnel to the socket has the rights of the user who made the tunnel, without any cookie.
        must_be_of_no_other_page(request)
        if self._server_uid not in (0, peer.uid) and peer.uid != 0:
            mine = user_name(self._server_uid)
            raise Forbidden(
                f"this server belongs to {mine} and runs jobs as {mine} only; start your own with corral up, or ask an "
                "administrator for one that runs as root"
            )
        return await self._caller(peer.uid, peer.gid)

    def is_valid(self, digest: str) -> bool:
        """Whether the token with this digest is still valid."""
        token = None if self._tokens is None else self._tokens.find(digest)
        return token is not None and token.live(self._clock.now())

    async def _holder_at(self, request: HTTPConnection) -> Caller:
        shows_token = "authorization" in request.headers or PROXIED_TOKEN in request.headers
        sessions = None if shows_token else self._sessions
        cookie = None if sessions is None else sessions.secret_in(request)
        if sessions is None or cookie is None:
            secret = _secret_of(request)
            caller, digest = await self.holder_of(secret), digest_of(secret)
        else:
            caller, digest = await self.session_of(cookie, request, sessions), sessions.digest_of(cookie, request)
        if caller.token is not None:
            # The request ends with the token, whatever it is for and however long it takes.
            request.scope["state"]["tokens"].add(digest)
        return caller

    def is_admin(self, uid: int) -> bool:
        """Whether this user administers the server."""
        return uid in (0, self._server_uid)

    async def holder_of(self, secret: str) -> Caller:
        """The caller who holds the secret of a token. Raises Unauthenticated."""
        if len(secret) > TOKEN_MOST_LENGTH:
            raise Unauthenticated(f"this is not a token: it is longer than {TOKEN_MOST_LENGTH} characters")
        digest = digest_of(secret)
        if self._own_digest is not None and hmac.compare_digest(digest, self._own_digest):
            return await self._caller(self._server_uid, os.getegid())
        return await self._holder(
            digest, "this token is unknown here; create one with `corral token create` on the server's machine"
        )

    async def session_of(self, secret: str, request: HTTPConnection, sessions: Sessions) -> Caller:
        """The caller of a session cookie. Raises Unauthenticated, and Forbidden if another user's process sends it."""
        digest = sessions.digest_of(secret, request)
        caller = await self._holder(digest, "there is no such session; open another with `corral dashboard`")
        sessions.must_be_of(caller, request)
        return caller

    async def _holder(self, digest: str, unknown: str) -> Caller:
        token = None if self._tokens is None else self._tokens.find(digest)
        if self._tokens is None or token is None:
            raise Unauthenticated(unknown)
        now = self._clock.now()
        if not token.live(now):
            raise Unauthenticated(
                f"{_ended(token, self._clock)}; create another with `corral token create` on the server's machine"
            )
        if self._server_uid not in (0, token.uid):
            raise Unauthenticated(
                f"token {token.id} belongs to {token.user}; this server runs jobs as {user_name(self._server_uid)} only"
            )
        caller = await self._caller(token.uid, os.getegid())
        if caller.user != token.user:
            raise Unauthenticated(
                f"token {token.id} was made for {token.user} (user id {token.uid}), and this user no longer exists"
            )
        self._tokens.used(token.id, now)
        return replace(caller, admin=caller.admin and token.scope is TokenScope.ADMIN, token=token)

    async def _caller(self, uid: int, gid: int) -> Caller:
        now = time.monotonic()
        known, (seen_at, stamp) = self._known.get((uid, gid)), self._stamp
        if now - seen_at >= _STAMP_AGE_S:
            _, stamp = self._stamp = now, _stamp_of_users()
        if known is not None and known[1] == stamp and now - known[0] < _REMEMBER_USER_S:
            return known[2]
        # Users and groups may be in a directory service that answers slowly.
        caller = await to_thread.run_sync(look_up, uid, gid, self.is_admin(uid))
        self._known[uid, gid] = (now, stamp, caller)
        return caller


def _secret_of(request: HTTPConnection) -> str:
    """The token in a request's Authorization header; of a request that came through an API server's proxy of services,
    in X-Corral-Token. Raises Unauthenticated if there is none.
    """
    headers = request.headers
    if PROXIED_TOKEN in headers and "authorization" not in headers:
        if not _PROXIED.match(headers.get("x-forwarded-uri", "")):
            raise Unauthenticated(
                "X-Corral-Token counts only through the API server's proxy of services; send the token in the header "
                "`Authorization: Bearer TOKEN`"
            )
        return headers[PROXIED_TOKEN].strip()
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthenticated(
            "over TCP a token is needed: create one on the server's machine (corral token create) and set CORRAL_TOKEN "
            "to it, or send it in the header `Authorization: Bearer TOKEN`"
        )
    return secret.strip()


def _ended(token: Token, clock: Clock) -> str:
    if token.revoked_at is not None:
        return f"token {token.id} was revoked"
    assert token.expires_at is not None
    expired = time.localtime(clock.shown(token.expires_at))
    return f"token {token.id} expired at {time.strftime('%Y-%m-%d %H:%M', expired)}"


def _stamp_of_users() -> Stamp:
    """A value that changes whenever the user files of this machine change."""
    return tuple(map(_stamp, _USER_FILES))


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def find_account(name: str) -> tuple[str, int] | None:
    """The name and uid of a user. If a uid has several names, the first one. None if there is no such user."""
    try:
        uid = pwd.getpwnam(name).pw_uid
        return pwd.getpwuid(uid).pw_name, uid
    except (KeyError, ValueError):
        return None


def ids_of(name: str) -> tuple[int, int] | None:
    """The uid and gid of a user; None if there is no such user."""
    try:
        account = pwd.getpwnam(name)
    except (KeyError, ValueError):
        return None
    return account.pw_uid, account.pw_gid


def look_up(uid: int, gid: int, admin: bool) -> Caller:
    """The caller with this uid and all their groups. `gid` is used only if the uid has no user name."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return Caller(str(uid), uid, gid, (gid,), admin, overseer=admin)
    groups = tuple(sorted(os.getgrouplist(user.pw_name, user.pw_gid)))
    return Caller(user.pw_name, uid, user.pw_gid, groups, admin, overseer=admin)


def ensure_token(path: Path) -> str:
    """The token in the file. If there is no file, create it with a new token, atomically and with mode 0600.

    Raises Refused if other users may read the file, or if its content is too short for a token.
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
        raise Refused(f"other users may read the token in {path}; forbid it: chmod 600 {path}")
    try:
        token = read_whole(path, 2 * TOKEN_MOST_LENGTH).decode(errors="surrogateescape").strip()
    except OSError as error:
        raise Refused(
            f"cannot read the token in {path}: {error.strerror}; remove the file, and the server creates a new one"
        ) from None
    if len(token) < TOKEN_LEAST_LENGTH:
        raise Refused(
            f"the token in {path} has {len(token)} characters, but at least {TOKEN_LEAST_LENGTH} are needed; "
            "remove the file, and the server creates a new one"
        )
    return token
