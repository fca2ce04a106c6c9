"""Finds the address of a server, and the token with which a client reaches it over TCP."""

from __future__ import annotations

import os

from corral.client.connecting.server_home import find_server_home, own_home
from corral.core.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.core.model.home import Home


class Address:
    """The address of a server: the socket in its home, or a host and port with a token.

    Attributes:
        home: the server's paths, as far as the client knows them.
        url: None for the socket in `home`.
        token: sent over TCP only; over the socket, the kernel identifies the caller.
        ca_file: certificates to trust over https instead of the system's; None for the system's.
        insecure: whether plain HTTP may go to other machines.
    """

    __slots__ = ("ca_file", "home", "insecure", "token", "url")

    def __init__(
        self,
        home: Home,
        url: str | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        insecure: bool = False,
    ) -> None:
        self.home = home
        self.url = url
        self.token = token
        self.ca_file = ca_file
        self.insecure = insecure

    def __str__(self) -> str:
        return self.url or self.home.socket_path

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"  # without the token, which is a secret


def find_address(
    home: str | os.PathLike[str] | None = None, url: str | None = None, token: str | None = None
) -> Address:
    """The server of the arguments, else of CORRAL_URL and CORRAL_TOKEN, else of CORRAL_HOME, else a server found here.

    The search takes a server that answers in ~/.corral, else in /var/lib/corral. If none answers, the address is
    ~/.corral.

    For an address of this machine without a token, the token of the home is used. CORRAL_CA_FILE names certificates to
    trust, CORRAL_INSECURE=1 allows plain HTTP to other machines. Raises Refused.
    """
    environ = os.environ if home is None else {**os.environ, "CORRAL_HOME": _directory(home)}
    field = "url"
    if url is None and home is None:
        url, field = environ.get("CORRAL_URL") or None, "CORRAL_URL"
    if url is None:
        return Address(find_server_home(environ))
    _ = url_parts(url, field)
    place = own_home(environ)
    if not isinstance(token, str | None):
        raise Refused("token: it is not text; give the secret that `corral token create` has shown", field="token")
    token = token or environ.get("CORRAL_TOKEN") or (_token_in(place) if _is_here(url) else None)
    ca_file, insecure = environ.get("CORRAL_CA_FILE") or None, environ.get("CORRAL_INSECURE") == "1"
    return Address(place, url, None if token is None else _checked(token.strip()), ca_file, insecure)


def _directory(home: str | os.PathLike[str]) -> str:
    """The path of the home. Raises Refused for the address of a server, and for values that are not a path."""
    if not isinstance(home, str | os.PathLike):
        raise Refused(f"home: {home!r} is not a path; give the server's directory, or url=...", field="home")
    if "://" in (path := os.fspath(home)):
        raise Refused(f"home: {path!r} is an address, not a directory; write Client(url={path!r})", field="home")
    return path


def _is_here(url: str) -> bool:
    """Whether the address is on this machine: the home's token must not be sent to other servers."""
    from corral.core.model.devices.address import is_loopback

    host = url_parts(url)[1]
    return host == "localhost" or is_loopback(host)


def _checked(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Refused(
            "CORRAL_TOKEN: it contains characters that no token has; copy the token again", field="CORRAL_TOKEN"
        )
    return token


def _token_in(home: Home) -> str | None:
    try:
        return home.token_file.read_text().strip() or None
    except OSError:
        return None


def url_parts(url: str, field: str = "CORRAL_URL") -> tuple[str, str, int]:
    """Scheme, host and port of a server's address. Raises Refused for anything else."""
    from urllib.parse import urlsplit

    if not isinstance(url, str):
        raise Refused(f"{field}: {url!r} is not text; write https://HOST:PORT, or give home=...", field=field)
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.username or parts.password or parts.query:
            # The message does not repeat it: it may be the token.
            raise Refused(f"{field}: do not put the token into the address; set CORRAL_TOKEN instead", field=field)
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else None)
    except ValueError as error:
        raise _no_address(field, url, str(error)) from None
    if parts.scheme not in ("http", "https"):
        raise _no_address(field, url, f"{parts.scheme}:// is not spoken here")
    if not host or url.startswith(("/", "~", ".")):
        raise _no_address(field, url, "it names no host; the directory of a server goes into CORRAL_HOME, or home=...")
    if port is None:
        raise _no_address(field, url, "it has no port, the one of `corral up --listen HOST:PORT`")
    return parts.scheme, host, port


def _no_address(field: str, url: str, why: str) -> Refused:
    shown = "this" if "@" in url else repr(url)  # the token may be in it
    return Refused(
        f"{field}: {shown} is not the address of a server ({why}); write https://HOST:PORT, or http://HOST:PORT",
        field=field,
    )
