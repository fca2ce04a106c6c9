"""The session cookie of a browser, and the checks that decide which requests may use it.

Another site, or another port of this machine, can make a browser send requests with this cookie. So a cookie counts
only if the browser says that a page of this server made the request (RFC 6454, Fetch Metadata).
"""

import hmac
from enum import StrEnum

from starlette.requests import HTTPConnection

from corral.api.connections.far_end import FarEnd
from corral.api.requests.origins import OWN_SITES
from corral.core.access.caller import Caller
from corral.core.model.devices.address import is_loopback
from corral.core.model.errors import Forbidden

NAME = "corral_session"
"""The beginning of the cookie's name. A browser has one set of cookies for all ports of a host, so names differ."""

LONGEST_S = 12 * 3600
"""The lifetime of a session that a link began. The browser deletes every session cookie after this time."""

_HARMLESS = ("GET", "HEAD")


class Way(StrEnum):
    """How the requests of a session arrive. A session that began in one way is not valid in any other."""

    ENCRYPTED = "encrypted"
    THIS_MACHINE = "this machine"
    OTHER_MACHINE = "other machine"


def way(connection: HTTPConnection) -> Way:
    """How a request arrives. Raises Forbidden on the Unix socket, where no session is valid."""
    if _encrypted(connection):
        return Way.ENCRYPTED
    far_end: FarEnd | None = connection.scope["state"]["far_end"]
    if far_end is None:
        raise Forbidden(
            "sessions do not work on the server's Unix socket, where the kernel says who you are; use the pages "
            "without "
            "signing in, or forward the port of the link instead of the socket"
        )
    return Way.THIS_MACHINE if far_end.on_this_machine else Way.OTHER_MACHINE


def must_be_of(caller: Caller, connection: HTTPConnection) -> None:
    """Raises Forbidden unless a process of the caller made the request, if other users of this machine could have made
    it.

    Browsers send a cookie to every port of this machine, so other users may have learnt it.
    """
    if way(connection) is not Way.THIS_MACHINE:
        return
    uid = connection.scope["state"]["far_end"].uid
    if uid is None:
        raise Forbidden(
            "the kernel does not say which user this connection is from, so sessions do not work on it; have the "
            "server "
            "listen with a certificate (corral up --listen HOST:PORT --tls-cert FILE --tls-key FILE)"
        )
    if uid != caller.uid:
        raise Forbidden(
            f"this session belongs to another user than the connecting process, whose user id is {uid}; open the link "
            "of `corral dashboard` in a browser of your own. A reverse proxy connects with TLS: see docs/dashboard.md"
        )


def digest(secret: str, by: Way) -> str:
    """The digest of a session's secret, which is stored in its place. No token sent in a header has the same digest."""
    return hmac.new(f"session, {by}".encode(), secret.encode(errors="surrogateescape"), "sha256").hexdigest()


def made(secret: str, connection: HTTPConnection) -> str:
    """The `Set-Cookie` header for a session's secret."""
    return f"{name(connection)}={secret}; Max-Age={LONGEST_S}; {_attributes(connection)}"


def removed(connection: HTTPConnection) -> str:
    """The `Set-Cookie` header that deletes the cookie."""
    return f"{name(connection)}=; Max-Age=0; {_attributes(connection)}"


def name(connection: HTTPConnection) -> str:
    """The name of the cookie of this server, which includes the port that the browser connects to.

    With TLS, no other host and no page without TLS can set a cookie of this name (RFC 6265bis, `__Host-`).
    """
    port = connection.headers.get("host", "").rpartition(":")[2]
    suffix = f"_{port}" if port.isascii() and port.isdecimal() else ""
    return f"{'__Host-' if _encrypted(connection) else ''}{NAME}{suffix}"


def read(connection: HTTPConnection, proxied_host: str | None) -> str | None:
    """The secret in the request's cookie; None if there is none.

    Raises Forbidden if there is a cookie but no page of this server made the request.
    """
    value = _value(connection)
    if value is None:
        return None
    must_be_own(connection, proxied_host)
    return value


def must_be_own(connection: HTTPConnection, proxied_host: str | None) -> None:
    """Raises Forbidden unless a page of this server made the request, or a person who typed its address.

    `proxied_host` is the name under which a reverse proxy of this machine shows the pages. The proxy must connect with
    TLS.
    """
    headers, host = connection.headers, connection.headers.get("host", "")
    proxied = proxied_host is not None and _encrypted(connection) and host.lower() == proxied_host.lower()
    if is_loopback(_server(connection)) and not _names_loopback(host) and not proxied:
        raise Forbidden(f"this server listens only on this machine, and not as {host!r:.80}; open it as 127.0.0.1")
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in OWN_SITES:
        raise Forbidden("this request was made by a page of another site or port, and sessions are for this server's")
    own = f"{'https' if _encrypted(connection) else 'http'}://{host}"
    # Only HTTP requests that change nothing may lack an origin; no WebSocket may. Every browser names foreign origins.
    harmless = connection.scope["type"] == "http" and connection.scope["method"] in _HARMLESS
    if origin != own and not (origin is None and harmless):
        said = "does not say which page made it" if origin is None else f"was made by a page of {origin!r:.80}"
        raise Forbidden(f"this request {said}, and sessions are for pages of {own!r:.80}")


def _value(connection: HTTPConnection) -> str | None:
    """The cookie's value. None if there are two, because one is from another server and they cannot be told apart."""
    wanted = name(connection)
    # Other servers of the host may set cookies in any form, so the cookies around this one are not checked.
    parts = [part.strip().partition("=") for part in ";".join(connection.headers.getlist("cookie")).split(";")]
    values = {value for key, _, value in parts if key == wanted}
    return values.pop() if len(values) == 1 else None


def _attributes(connection: HTTPConnection) -> str:
    return f"Path=/; HttpOnly; SameSite=Strict{'; Secure' if _encrypted(connection) else ''}"


def _encrypted(connection: HTTPConnection) -> bool:
    return connection.scope.get("scheme") in ("https", "wss")


def _server(connection: HTTPConnection) -> str:
    """The server's address of this connection; an empty text if it is not known."""
    address: str = (connection.scope.get("server") or ("",))[0]
    return address


def _names_loopback(host: str) -> bool:
    """Whether a Host header surely names this machine. Any other name may resolve to 127.0.0.1 later."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    return name == "localhost" or is_loopback(name.strip("[]"))
