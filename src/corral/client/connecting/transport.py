"""HTTP to one Corral server, over its Unix socket or over TCP with a token. Turns error answers into exceptions.

A token is a secret. No message contains it. It goes over plain HTTP only if no other machine can read it.
"""

from __future__ import annotations

import errno
import json
import select
import socket
import time
from contextlib import suppress

from corral.client.connecting.address import Address, url_parts
from corral.core.model.errors import BackendFailed, Conflict, CorralError, Forbidden, LedgerFailed, NotFound, Refused
from corral.core.model.units import is_whole
from corral.http_answer import Answer, HungUp, NotHttp, begun, blocks, request_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

CONNECT_TIMEOUT_S = 5.0
CONNECT_RETRY_S = 1
ANSWER_TIMEOUT_S = 60.0

_API = "/api/v1"
_RECEIVED_BYTES = 1 << 18
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
_STALE = (HungUp, ConnectionResetError, BrokenPipeError)
_USUAL_PORTS = {"http": 80, "https": 443}
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~")
_PLAIN_IN_A_QUERY = _PLAIN | {","}


class NoServer(BackendFailed):
    """No server answers at the address, or it went away before it answered."""


class ServerWentAway(NoServer):
    """A server accepted the connection, but went away before it answered."""


class UntrustedServer(CorralError):
    """The server's certificate is not trusted. Nothing was sent to the server."""


class ServerBusy(BackendFailed):
    """The server is too busy and has not acted on the request. Try again in `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Transport:
    """Sends requests to one server over one kept connection. Not thread-safe."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._headers = {"Authorization": f"Bearer {address.token}"} if address.token and address.url else {}
        self._connection: _Connection | None = None
        self._streams: set[socket.socket] = set()

    def end_streams(self) -> None:
        """End streams that another thread reads, as if the server had gone away."""
        for line in tuple(self._streams):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, **query: Any) -> Any:
        """GET `path`. Query values of None are left out."""
        return self._call("GET", _with_query(path, query), None, repeatable=True, timeout_s=ANSWER_TIMEOUT_S)

    def post(
        self, path: str, body: Any = None, *, repeatable: bool = False, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Any:
        """POST `body` and return the answer. Sent twice only if `repeatable` and the kept connection had gone stale."""
        return self._call("POST", _API + path, {} if body is None else body, repeatable, timeout_s)

    def post_bytes(self, path: str, data: bytes, *, timeout_s: float, **query: Any) -> Any:
        """POST bytes and return the answer. The request may be sent twice."""
        return self._call("POST", _with_query(path, query), data, repeatable=True, timeout_s=timeout_s)

    def patch(self, path: str, body: Any) -> Any:
        """PATCH with `body` and return the answer. The body describes the result, and the request may be sent twice."""
        return self._call("PATCH", _API + path, body, repeatable=True, timeout_s=ANSWER_TIMEOUT_S)

    def put(self, path: str, body: Any) -> Any:
        """PUT `body` in place of the present content and return the answer. The request may be sent twice."""
        return self._call("PUT", _API + path, body, repeatable=True, timeout_s=ANSWER_TIMEOUT_S)

    def delete(self, path: str) -> Any:
        """DELETE `path` and return the answer."""
        return self._call("DELETE", _API + path, None, repeatable=False, timeout_s=ANSWER_TIMEOUT_S)

    def stream(self, path: str, *, quiet_s: float | None = None, **query: Any) -> Iterator[bytes]:
        """The bytes of `path` as they come, over a separate connection.

        Raises NoServer if the stream breaks off before its end, or if nothing comes for `quiet_s` (None: no limit).
        """
        connection = self._open(ANSWER_TIMEOUT_S)
        line = connection.sock
        self._streams.add(line)
        try:
            line.settimeout(quiet_s)
            answer = connection.ask("GET", _with_query(path, query), self._headers)
            if answer.status >= 300:
                raise self._error(answer.status, b"".join(connection.blocks()))
            yield from connection.blocks()
        except (OSError, NotHttp) as error:
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
                raise Refused(f"the request cannot be written as JSON: {error}") from None
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
        except (OSError, NotHttp) as error:
            self.close()
            raise self._broken(error) from error
        try:
            return self._exchange(self._open(timeout_s), method, target, data, timeout_s)
        except (OSError, NotHttp) as error:
            self.close()
            raise self._broken(error) from error

    def _exchange(self, connection: _Connection, method: str, target: str, data: bytes | None, timeout_s: float) -> Any:
        self._connection = connection
        connection.sock.settimeout(timeout_s)
        headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
        answer = connection.ask(method, target, headers, data)
        payload = b"".join(connection.blocks())
        if answer.status >= 300:
            error = self._error(answer.status, payload)
            retry_after = answer.headers.get("retry-after", "")
            raise ServerBusy(str(error), int(retry_after)) if is_whole(retry_after) else error
        try:
            return json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise CorralError(f"there is no Corral server at {self.address}: the answer is not JSON") from error

    def _kept_connection(self) -> _Connection | None:
        """The kept connection; None if the server has closed it. A closed connection is ready for reading."""
        connection = self._connection
        if connection is None:
            return None
        if not connection.reusable or select.select([connection.sock], [], [], 0)[0]:
            self.close()
            return None
        return connection

    def _open(self, timeout_s: float) -> _Connection:
        address = self.address
        try:
            connection = _over_tcp(address) if address.url else _over_socket(address)
        except PermissionError as error:
            raise Forbidden(
                f"you may not connect to {address}; ask its owner, or set CORRAL_HOME to another home"
            ) from error
        except OSError as error:
            raise self._unreachable(error) from error
        connection.sock.settimeout(timeout_s)
        return connection

    def _unreachable(self, error: OSError) -> BackendFailed:
        """The error of a failed connection: NoServer only if none can be there, as callers then work without one."""
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
        from corral.client.connecting.machine_server import how_to_start

        return NoServer(f"no Corral server runs in {self.address.home}; {how_to_start(self.address.home)}")

    def _broken(self, error: Exception) -> NoServer:
        if isinstance(error, TimeoutError):
            return NoServer(f"the server at {self.address} did not answer in time; `corral doctor` looks for the cause")
        tls = "; where it is served with a certificate, write https://" if "http://" in str(self.address) else ""
        return ServerWentAway(
            f"the server at {self.address} went away before it had answered "
            f"({str(error) or type(error).__name__}); `corral ps --all` shows whether it carried out the request{tls}"
        )

    def _error(self, status: int, payload: bytes) -> CorralError:
        try:
            error = json.loads(payload)["error"]
            message, field, kind = str(error["message"]), error.get("field"), error.get("kind")
            if descriptions := error.get("descriptions"):
                message = _with_description(message, descriptions)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return CorralError(
                f"the server at {self.address} answered with HTTP status {status} and no reason; "
                "it may be of another version: compare `corral version` with `corral doctor`"
            )
        refusals = {"refused": Refused, "not_found": NotFound, "forbidden": Forbidden}
        failures = {"conflict": Conflict, "backend": BackendFailed, "ledger": LedgerFailed}
        if kind in refusals:
            return refusals[kind](message, field=field)
        return failures.get(kind, CorralError)(message)


class _Connection:
    """An open connection to a server, for one request after another.

    Attributes:
        sock: the open socket, with TLS if the server uses it.
    """

    def __init__(self, sock: socket.socket, host: str) -> None:
        self.sock = sock
        self._host = host
        self._answer = Answer()

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Send a request and return its answer, of which only the head has come. Raises OSError, NotHttp."""
        self._answer = Answer()
        self.sock.sendall(request_bytes(method, target, {"Host": self._host, **headers}, body))
        self._answer = begun(self._received)
        return self._answer

    def blocks(self) -> Iterator[bytes]:
        """The body of the answer in pieces, as they come. Raises OSError, and NotHttp if the body breaks off."""
        return blocks(self._answer, self._received)

    @property
    def reusable(self) -> bool:
        """Whether the last answer was read and the server takes another request."""
        return self._answer.reusable

    def close(self) -> None:
        self.sock.close()

    def _received(self) -> bytes:
        return self.sock.recv(_RECEIVED_BYTES)


def _with_description(message: str, descriptions: Mapping[str, str]) -> str:
    from corral.client.language import in_own_language

    described = in_own_language(descriptions)
    return f"{message} ({described})" if described else message


def _over_socket(address: Address) -> _Connection:
    path = address.home.socket_path
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(CONNECT_TIMEOUT_S)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return _Connection(sock, "localhost")


def _over_tcp(address: Address) -> _Connection:
    """A connection over TCP.

    Raises UntrustedServer, NoServer and Refused, in each case before anything is sent. Raises OSError at any time.
    """
    scheme, host, port = url_parts(address.url or "")
    named = f"[{host}]" if ":" in host else host
    if scheme == "https":
        from corral.client.connecting.tls import encrypted, trusting

        context = trusting(address)
        sock: socket.socket = encrypted(_connected(host, port), host, context, address)
    else:
        sock = _connected(host, port)
        _check_private(address, sock)
    return _Connection(sock, named if port == _USUAL_PORTS[scheme] else f"{named}:{port}")


def _connected(host: str, port: int) -> socket.socket:
    sock = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _check_private(address: Address, sock: socket.socket) -> None:
    """Raise Refused before others on the network could read a request. The peer's address decides, not its name."""
    from corral.core.model.devices.address import is_loopback

    if not address.insecure and not is_loopback(sock.getpeername()[0]):
        sock.close()
        raise Refused(
            f"{address} is another machine and the connection is not encrypted, so anyone on the network could use "
            "your token; write https://, or set CORRAL_INSECURE=1 if you trust the network",
            field="CORRAL_URL",
        )


def _with_query(path: str, query: Mapping[str, Any]) -> str:
    given = {key: int(value) if isinstance(value, bool) else value for key, value in query.items() if value is not None}
    if not given:
        return _API + path
    return f"{_API}{path}?" + "&".join(f"{key}={_quoted(str(value))}" for key, value in given.items())


def _quoted(text: str) -> str:
    """`text` as it stands in a query. Most text needs no change; the module that changes it takes long to load."""
    if _PLAIN_IN_A_QUERY.issuperset(text):
        return text
    from urllib.parse import quote_plus

    return quote_plus(text)


def job_path(job_id: Any, *verb: str) -> str:
    """The path of a job's route. Raises NotFound for an id that is not a single path part, Refused for other values."""
    if not (isinstance(job_id, str) and is_plain(job_id)):
        from urllib.parse import quote

        from corral.client.submitting.arguments import one_job_id

        job_id = quote(one_job_id(job_id), safe="")
    return "/".join(["/jobs", job_id, *verb])


def is_plain(text: str) -> bool:
    """Whether `text` has only letters, digits and a few marks, which have no special meaning in a path or a query."""
    return bool(text) and _PLAIN.issuperset(text)
