"""HTTP to one Corral server, over its Unix socket or over TCP with a token. Turns error answers into exceptions.

A token is a secret: it is in no message, and goes over plain HTTP only where no other machine can read it.
"""

import errno
import http.client
import json
import os
import select
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from corral.client.server_home import find_server_home, own_home
from corral.model.address import is_loopback
from corral.model.errors import BackendFailed, Conflict, CorralError, Forbidden, LedgerFailed, NotFound, Refused
from corral.model.home import Home
from corral.model.units import is_whole

CONNECT_TIMEOUT_S = 5.0
CONNECT_RETRY_S = 1
ANSWER_TIMEOUT_S = 60.0
STREAM_BLOCK_BYTES = 1 << 16

_API = "/api/v1"
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class NoServer(BackendFailed):
    """No server answers at the address, or it went away before it answered."""


class ServerWentAway(NoServer):
    """A server accepted the connection, but went away before it answered."""


class UntrustedServer(CorralError):
    """The server's certificate is not trusted. Nothing was sent to it."""


class ServerBusy(BackendFailed):
    """The server is too busy and did nothing of the request. Try again in `retry_after_s`."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is: the socket in its home, or a host and port with a token.

    Attributes:
        home: the server's paths, as far as the client knows them.
        url: None for the socket in `home`.
        token: sent over TCP only; the socket's caller is who the kernel says.
        ca_file: certificates to trust over https instead of the system's; None for the system's.
        insecure: plain HTTP may go to other machines.
    """

    home: Home
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    insecure: bool = False

    def __str__(self) -> str:
        return self.url or str(self.home.socket)


def find_address(
    home: str | os.PathLike[str] | None = None, url: str | None = None, token: str | None = None
) -> Address:
    """The server meant by the arguments, else by CORRAL_URL and CORRAL_TOKEN, else by CORRAL_HOME, else the one found.

    Found is one that answers in ~/.corral, else in /var/lib/corral; without any, the address is ~/.corral.

    When no token is given for an address of this machine, it is the home's own. CORRAL_CA_FILE names certificates to
    trust, CORRAL_INSECURE=1 allows plain HTTP to other machines. Raises Refused.
    """
    environ = os.environ if home is None else {**os.environ, "CORRAL_HOME": _directory(home)}
    field = "url"
    if url is None and home is None:
        url, field = environ.get("CORRAL_URL") or None, "CORRAL_URL"
    if url is None:
        return Address(find_server_home(environ))
    _ = _parts(url, field)
    place = own_home(environ)
    if not isinstance(token, str | None):
        raise Refused("token: it is not text; give the secret that `corral token create` has shown", field="token")
    token = token or environ.get("CORRAL_TOKEN") or (_token_in(place) if _is_here(url) else None)
    ca_file, insecure = environ.get("CORRAL_CA_FILE") or None, environ.get("CORRAL_INSECURE") == "1"
    return Address(place, url, None if token is None else _checked(token.strip()), ca_file, insecure)


def _directory(home: str | os.PathLike[str]) -> str:
    """Raises Refused for what is the address of a server, and for what is no path."""
    if not isinstance(home, str | os.PathLike):
        raise Refused(f"home: {home!r} is not a path; give the server's directory, or url=...", field="home")
    if "://" in (path := os.fspath(home)):
        raise Refused(f"home: {path!r} is an address, not a directory; write Client(url={path!r})", field="home")
    return path


def _is_here(url: str) -> bool:
    """Whether the address is on this machine: the home's token must not be sent to other servers."""
    host = _parts(url)[1]
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


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(CONNECT_TIMEOUT_S)
        try:
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise
        self.sock.settimeout(self.timeout)


class Transport:
    """Sends requests to one server over one kept connection. Not thread-safe."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._headers = {"Authorization": f"Bearer {address.token}"} if address.token and address.url else {}
        self._connection: http.client.HTTPConnection | None = None
        self._streams: set[socket.socket] = set()

    def end_streams(self) -> None:
        """End streams that another thread reads, as if the server had gone."""
        for line in tuple(self._streams):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, **query: Any) -> Any:
        """GET `path`; queries that are None are left out."""
        return self._call("GET", _with_query(path, query), None, repeatable=True, timeout_s=ANSWER_TIMEOUT_S)

    def post(
        self, path: str, body: Any = None, *, repeatable: bool = False, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Any:
        """The answer to `body`. Sent twice only if `repeatable` and the kept connection had gone stale."""
        return self._call("POST", _API + path, {} if body is None else body, repeatable, timeout_s)

    def post_bytes(self, path: str, data: bytes, *, timeout_s: float, **query: Any) -> Any:
        """The answer to a body of bytes, which may be sent twice."""
        return self._call("POST", _with_query(path, query), data, repeatable=True, timeout_s=timeout_s)

    def patch(self, path: str, body: Any) -> Any:
        """The answer to `body`, which says how things are to be, so that it may be sent twice."""
        return self._call("PATCH", _API + path, body, repeatable=True, timeout_s=ANSWER_TIMEOUT_S)

    def delete(self, path: str) -> Any:
        """The answer to the end of what `path` names."""
        return self._call("DELETE", _API + path, None, repeatable=False, timeout_s=ANSWER_TIMEOUT_S)

    def stream(self, path: str, *, quiet_s: float | None = None, **query: Any) -> Iterator[bytes]:
        """Bytes of `path` as they come, over a connection of their own.

        Raises NoServer when the stream breaks off before its end, or when nothing comes for `quiet_s` (None: for ever).
        """
        connection = self._open(ANSWER_TIMEOUT_S)
        line = connection.sock
        self._streams.add(line)
        try:
            connection.request("GET", _with_query(path, query), headers=self._headers)
            if connection.sock is not None:
                connection.sock.settimeout(quiet_s)
            response = connection.getresponse()
            if response.status >= 300:
                raise self._error(response.status, response.read())
            while block := response.read1(STREAM_BLOCK_BYTES):
                yield block
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(error) from error
        finally:
            self._streams.discard(line)
            connection.close()

    def _call(self, method: str, target: str, body: Any, repeatable: bool, timeout_s: float) -> Any:
        data = body
        if body is not None and not isinstance(body, bytes):
            try:
                data = json.dumps(body, separators=(",", ":")).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise Refused(f"what is to be sent cannot be written as JSON: {error}") from None
        give_up_at = time.monotonic() + timeout_s
        while True:
            try:
                return self._ask(method, target, data, repeatable, timeout_s)
            except ServerBusy as busy:
                if time.monotonic() + busy.retry_after_s > give_up_at:
                    raise
                time.sleep(busy.retry_after_s)

    def _ask(self, method: str, target: str, data: bytes | None, repeatable: bool, timeout_s: float) -> Any:
        kept = self._kept_connection()
        try:
            return self._exchange(kept or self._open(timeout_s), method, target, data, timeout_s)
        except _STALE as error:
            self.close()
            if kept is None or not repeatable:
                raise self._broken(error) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._broken(error) from error
        try:
            return self._exchange(self._open(timeout_s), method, target, data, timeout_s)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._broken(error) from error

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, target: str, data: bytes | None, timeout_s: float
    ) -> Any:
        self._connection = connection
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
        connection.request(method, target, body=data, headers=headers)
        response = connection.getresponse()
        payload = response.read()
        if response.status >= 300:
            error = self._error(response.status, payload)
            retry_after = response.headers.get("retry-after", "")
            raise ServerBusy(str(error), int(retry_after)) if is_whole(retry_after) else error
        try:
            return json.loads(payload)
        except ValueError as error:
            raise CorralError(f"there is no Corral server at {self.address}: the answer is not JSON") from error

    def _kept_connection(self) -> http.client.HTTPConnection | None:
        """The kept connection, unless the server has closed it (then it has something to read)."""
        connection = self._connection
        if connection is None or connection.sock is None:
            return None
        if select.select([connection.sock], [], [], 0)[0]:
            self.close()
            return None
        return connection

    def _open(self, timeout_s: float) -> http.client.HTTPConnection:
        address = self.address
        connection = _tcp(address) if address.url else _UnixConnection(str(address.home.socket), timeout_s)
        try:
            connection.connect()
        except PermissionError as error:
            raise Forbidden(
                f"you may not connect to {address}; ask its owner, or set CORRAL_HOME to another home"
            ) from error
        except ssl.SSLError as error:
            raise _mistrust(address, error) from error
        except OSError as error:
            raise self._unreachable(error) from error
        if address.url:
            _check_private(address, connection)
            connection.sock.settimeout(timeout_s)
        return connection

    def _unreachable(self, error: OSError) -> BackendFailed:
        """NoServer only where none can be there: who hears that works without one."""
        what = error.strerror or str(error)
        if error.errno in _OUT_OF_RESOURCES:
            return BackendFailed(
                f"cannot connect to the server at {self.address}: {what}; "
                "this program may open too few files (`ulimit -n`), or the machine is short of memory"
            )
        if self.address.url:
            return NoServer(f"no Corral server answers at {self.address} ({what}); check CORRAL_URL")
        if isinstance(error, (BlockingIOError, TimeoutError)):
            return ServerBusy(f"the server at {self.address} takes no connection now ({what})", CONNECT_RETRY_S)
        return NoServer(
            f"no Corral server runs in {self.address.home.root}; start one with `corral up`, "
            "or set CORRAL_HOME to the home of the one that runs"
        )

    def _broken(self, error: Exception) -> NoServer:
        if isinstance(error, TimeoutError):
            return NoServer(f"the server at {self.address} did not answer in time; `corral doctor` looks for the cause")
        tls = "; where it is served with a certificate, write https://" if "http://" in str(self.address) else ""
        return ServerWentAway(
            f"the server at {self.address} went away before it had answered ({str(error) or type(error).__name__}); "
            f"whether it did what was asked shows in `corral ps --all`{tls}"
        )

    def _error(self, status: int, payload: bytes) -> CorralError:
        try:
            error = json.loads(payload)["error"]
            message, field, kind = str(error["message"]), error.get("field"), error.get("kind")
        except (ValueError, KeyError, TypeError, AttributeError):
            return CorralError(
                f"the server at {self.address} answered with HTTP status {status} and no reason; "
                "it may be of another version: compare `corral version` with `corral doctor`"
            )
        refusals = {"refused": Refused, "not_found": NotFound, "forbidden": Forbidden}
        failures = {"conflict": Conflict, "backend": BackendFailed, "ledger": LedgerFailed}
        if kind in refusals:
            return refusals[kind](message, field=field)
        return failures.get(kind, CorralError)(message)


def _tcp(address: Address) -> http.client.HTTPConnection:
    """A connection that is not opened yet."""
    scheme, host, port = _parts(address.url or "")
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_S)
    try:
        context = ssl.create_default_context(cafile=address.ca_file)
    except OSError as error:
        why = "it holds no certificates in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
        raise Refused(f"CORRAL_CA_FILE: cannot use {address.ca_file}: {why}", field="CORRAL_CA_FILE") from None
    return http.client.HTTPSConnection(host, port, timeout=CONNECT_TIMEOUT_S, context=context)


def _parts(url: str, field: str = "CORRAL_URL") -> tuple[str, str, int]:
    """Scheme, host and port of a server's address. Raises Refused for anything else."""
    if not isinstance(url, str):
        raise Refused(f"{field}: {url!r} is not text; write https://HOST:PORT, or give home=...", field=field)
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.username or parts.password or parts.query:
            # Not repeated here: it may be the token.
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


def _check_private(address: Address, connection: http.client.HTTPConnection) -> None:
    """Raises Refused before anything is sent that others could read. Decided by the peer's address, not by its name."""
    if isinstance(connection, http.client.HTTPSConnection) or address.insecure:
        return
    if not is_loopback(connection.sock.getpeername()[0]):
        connection.close()
        raise Refused(
            f"{address} is another machine and the connection is not encrypted, so anyone on the network could use "
            "your token; write https://, or set CORRAL_INSECURE=1 if you trust the network",
            field="CORRAL_URL",
        )


def _mistrust(address: Address, error: ssl.SSLError) -> CorralError:
    if isinstance(error, ssl.SSLCertVerificationError):
        trusted = f"those in {address.ca_file}" if address.ca_file else "those of this system"
        return UntrustedServer(
            f"the certificate of {address} is not to be trusted ({error.verify_message}; trusted are {trusted}), so it "
            "was told nothing; if it is the server's own, set CORRAL_CA_FILE to a copy of it that you trust"
        )
    return NoServer(
        f"what answers at {address} does not speak TLS as this client does ({error.reason or error}); "
        "where it is served without a certificate, write http://"
    )


def _with_query(path: str, query: Mapping[str, Any]) -> str:
    given = {key: int(value) if isinstance(value, bool) else value for key, value in query.items() if value is not None}
    return f"{_API}{path}?{urlencode(given)}" if given else _API + path
