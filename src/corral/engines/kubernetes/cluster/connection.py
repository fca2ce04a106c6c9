"""HTTP to one API server: kept connections, deadlines, and streams that another thread can end.

Environment variables for proxies and certificates are ignored; the kubeconfig alone decides.
"""

import base64
import http.client
import os
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import unquote, urlencode, urlsplit

from corral.core.model.errors import Refused
from corral.engines.kubernetes.cluster.credentials import Credential
from corral.engines.kubernetes.cluster.errors import ClusterNotTrusted, ClusterUnreachable, NotAuthenticated
from corral.engines.kubernetes.cluster.kubeconfig import Access
from corral.http_answer import Answer, CutShort, NotHttp, begun, blocks, request_bytes

CONNECT_TIMEOUT_S = 5.0
KEPT_CONNECTIONS = 16
READ_BYTES = 1 << 16
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_TRIES = 30, 10, 3


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `target` is the path with its query."""

    method: str
    target: str
    body: bytes | None = None
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Response:
    """The status, headers and body of an answer."""

    status: int
    body: bytes = field(repr=False)
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class OpenLine:
    """A connection for protocols beyond HTTP, with the parts of its first request.

    Attributes:
        socket: the open socket, with TLS.
        host: the value of the Host header.
        prefix: the path below which the API server answers.
        headers: the headers that authenticate the client.
        close: ends it.
    """

    socket: socket.socket
    host: str
    prefix: str
    headers: Mapping[str, str] = field(repr=False)
    close: Callable[[], None]


class Connections:
    """One API server, for calls of many threads."""

    def __init__(self, access: Access) -> None:
        self.access = access
        parts = urlsplit(access.url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        named = f"[{self._host}]" if ":" in self._host else self._host
        self._authority = named if parts.port is None else f"{named}:{self._port}"
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._tls: tuple[tuple[str, str] | None, ssl.SSLContext] | None = None
        self._closed = False

    def call(self, call: Call, deadline_s: float) -> Response:
        """Return the answer to one request, of any status, by `deadline_s` of the monotonic clock.

        Raises ClusterUnreachable, ClusterNotTrusted; NotAuthenticated if there is no credential.
        """
        connection = self._taken()
        with self._closed_on_error(connection):
            answer, receive = self._sent(connection, call, deadline_s)
            response = _whole(answer, receive)
        if answer.reusable:
            self._give_back(connection)
        else:
            connection.close()
        return response

    def stream(self, call: Call, deadline_s: float, silence_s: float | None) -> "ResponseStream | Response":
        """Return a stream over a connection of its own, or a Response if the request was refused.

        Args:
            call: the request.
            deadline_s: the time of the monotonic clock by which the answer has to begin.
            silence_s: the silence after which the stream counts as broken; None for no limit.
        """
        connection = self._new()
        with self._closed_on_error(connection):
            answer, receive = self._sent(connection, call, deadline_s)
            if answer.status != 200:
                response = _whole(answer, receive)
                connection.close()
                return response
            connection.sock.settimeout(silence_s)
        return ResponseStream(connection, answer, str(self))

    @contextmanager
    def _closed_on_error(self, connection: http.client.HTTPConnection) -> Iterator[None]:
        """A context that closes the connection if anything fails, so that it is not used again.

        Raises ClusterUnreachable, ClusterNotTrusted.
        """
        try:
            yield
        except (OSError, ValueError, NotHttp, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from None
        except BaseException:
            connection.close()
            raise

    def open_line(self, deadline_s: float) -> OpenLine:
        """Return a new connection for the caller alone, open by `deadline_s` of the monotonic clock.

        Raises ClusterUnreachable, ClusterNotTrusted.
        """
        connection = self._new()
        try:
            connection.timeout = min(time_left_s(deadline_s), CONNECT_TIMEOUT_S)
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from None
        return OpenLine(connection.sock, self._host, self._prefix, self._who(), connection.close)

    def forget_connections(self) -> None:
        """Close idle connections, as after a restart of the server or a change of the credential."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close all connections, and keep none from now on."""
        self._closed = True
        self.forget_connections()

    def __str__(self) -> str:
        return self.access.url

    def _taken(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._new()

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < KEPT_CONNECTIONS and not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _new(self) -> http.client.HTTPConnection:
        if not self._secure:
            connection: http.client.HTTPConnection = _Plain(self._host, self._port, timeout=CONNECT_TIMEOUT_S)
        else:
            context = self._context(self.access.credentials.current())
            connection = _Tls(self._host, self._port, context, self.access.tls_server_name)
        if self.access.proxy_url is not None:
            proxy = urlsplit(self.access.proxy_url)
            headers = {}
            if proxy.username is not None:
                pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
                headers["Proxy-Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
            connection.set_tunnel(self._host, self._port, headers)
            connection.host, connection.port = proxy.hostname or "", proxy.port or 80
        return connection

    def _context(self, credential: Credential) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None or self._tls[0] != credential.certificate:
                self._tls = credential.certificate, _tls_context(self.access, credential.certificate)
                stale, self._idle = self._idle, []
                for connection in stale:
                    connection.close()
            return self._tls[1]

    def _sent(
        self, connection: http.client.HTTPConnection, call: Call, deadline_s: float
    ) -> tuple[Answer, Callable[[], bytes]]:
        """Return the head of the answer and a function that receives the rest. Each part has the time that is left of
        the deadline.
        """
        headers = {"Host": self._authority, "Accept-Encoding": "identity", "Accept": "application/json"}
        headers |= {"User-Agent": "corral", **self._who()}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if connection.sock is None:
            connection.timeout = min(time_left_s(deadline_s), CONNECT_TIMEOUT_S)
            connection.connect()
        line: socket.socket = connection.sock

        def receive() -> bytes:
            line.settimeout(time_left_s(deadline_s))
            return line.recv(READ_BYTES)

        line.settimeout(time_left_s(deadline_s))
        line.sendall(request_bytes(call.method, self._prefix + call.target, headers, call.body))
        return begun(receive), receive

    def _who(self) -> dict[str, str]:
        token = self.access.credentials.current().token
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _unreachable(self, error: Exception) -> ClusterUnreachable | ClusterNotTrusted:
        self.forget_connections()
        if isinstance(error, TimeoutError):
            return ClusterUnreachable(f"the API server {self} does not answer in time")
        if isinstance(error, ssl.SSLCertVerificationError):
            return ClusterNotTrusted(
                f"the certificate of the API server {self} is not trusted: {error.verify_message}; the kubeconfig's "
                "certificate-authority has to name who signed it",
                field="kubeconfig",
            )
        if isinstance(error, CutShort):
            return ClusterUnreachable(f"the API server {self} broke off its answer")
        return ClusterUnreachable(f"the API server {self} cannot be reached: {error}")


class ResponseStream:
    """A streamed response, read by one thread and ended by any."""

    def __init__(self, connection: http.client.HTTPConnection, answer: Answer, url: str) -> None:
        self._connection = connection
        self._socket = connection.sock
        self._answer = answer
        self._url = url

    def blocks(self) -> Iterator[bytes]:
        """Yield the received bytes. Raises ClusterUnreachable if the stream breaks off or is silent for too long."""
        try:
            yield from blocks(self._answer, partial(self._socket.recv, READ_BYTES))
        except (OSError, ValueError, NotHttp) as error:
            # ValueError: the stream was closed while it was read.
            raise ClusterUnreachable(f"the API server {self._url} broke off a stream: {error}") from None
        finally:
            self.close()

    def lines(self) -> Iterator[bytes]:
        """Yield whole lines as they come. An incomplete line at the end of the stream is dropped."""
        parts: list[bytes] = []
        for block in self.blocks():
            parts.append(block)
            if b"\n" in block:
                *lines, rest = b"".join(parts).split(b"\n")
                parts = [rest]
                yield from lines

    def close(self) -> None:
        """End the stream, even while another thread waits for data."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class _Plain(http.client.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _watch_over(self.sock)


class _Tls(http.client.HTTPSConnection):
    def __init__(self, host: str, port: int, context: ssl.SSLContext, server_name: str | None) -> None:
        super().__init__(host, port, timeout=CONNECT_TIMEOUT_S, context=context)
        self._tls_context = context
        self._server_name = server_name or host

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        _watch_over(self.sock)
        # Check here for a peer that is already gone: Python would find out itself, but leave the socket open.
        self.sock.getpeername()
        self.sock = self._tls_context.wrap_socket(self.sock, server_hostname=self._server_name)


def _watch_over(line: socket.socket) -> None:
    """Let the kernel detect a peer that has vanished. Otherwise a waiting watch would not notice it."""
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_TRIES)


def _tls_context(access: Access, certificate: tuple[str, str] | None) -> ssl.SSLContext:
    """Return the TLS settings. Raises Refused or NotAuthenticated for certificates that cannot be read."""
    try:
        context = ssl.create_default_context(cadata=access.authorities)
    except ssl.SSLError as error:
        raise Refused(
            f"the certificate-authority of {access.url} cannot be read: {error}", field="kubeconfig"
        ) from None
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _show(context, certificate)
    return context


def _show(context: ssl.SSLContext, certificate: tuple[str, str]) -> None:
    """Load the client certificate. OpenSSL reads only files, so the key is in a private file until it is loaded."""
    with tempfile.TemporaryDirectory(prefix="corral-") as directory:
        path = os.path.join(directory, "pair.pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write("\n".join(certificate))
        try:
            context.load_cert_chain(path)
        except (ssl.SSLError, ValueError):
            raise NotAuthenticated(
                "the client certificate or its key cannot be read, or do not belong together"
            ) from None


def time_left_s(deadline_s: float) -> float:
    """Return the seconds until the deadline. Raises TimeoutError if it has passed."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _whole(answer: Answer, receive: Callable[[], bytes]) -> Response:
    """Return the answer with its body, and with the seconds after which to repeat the request. A date in Retry-After is
    ignored.
    """
    body = b"".join(blocks(answer, receive))
    value = answer.headers.get("retry-after", "")
    again_s = float(value) if value.isascii() and value.isdigit() and len(value) < 6 else None
    return Response(answer.status, body, again_s)


def query_of(query: Mapping[str, str | None]) -> str:
    """Return `?a=b&c=d` of the values that are not None, or ""."""
    given = {key: value for key, value in query.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""
