"""A proxy before a real API server that does what networks and servers do on bad days, drawn from a seed.

Clients speak plain HTTP to `FaultProxy.url`, with their own tokens. What a fault is and how often it comes is in
`Faults`; `once` has one come for certain. What came is counted, so that a test can say that it was really tried.
"""

import http.client
import http.server
import json
import random
import ssl
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.engines.kubernetes.control_plane import ControlPlane

REMEMBERED_LINES = 50
UPSTREAM_S = 120.0
QUESTIONS = "/apis/authorization.k8s.io/"
"""What is posted there asks for rights, and changes nothing."""


@dataclass(frozen=True)
class Faults:
    """How likely each fault is, from 0 to 1: of a request, or, in the second half, of a line of a watch.

    Attributes:
        error_500: refused, without being done.
        conflict_409: of a write: refused as if somebody else had been faster.
        busy_429: refused, with Retry-After of one second.
        hang: not answered for `hang_s`, and then broken off.
        lost_answer: done, and broken off before the answer.
        expired_410: of a watch or a part of a listing: its version is too old.
        watch_cut: the connection ends in the middle of the line.
        watch_stall: nothing more comes for `hang_s`, and then it ends.
        watch_repeat: an earlier line of the same watch comes again.
        watch_expired: the watch says that its version is too old.
        hang_s: seconds, and no likelihood.
    """

    error_500: float = 0
    conflict_409: float = 0
    busy_429: float = 0
    hang: float = 0
    lost_answer: float = 0
    expired_410: float = 0
    watch_cut: float = 0
    watch_stall: float = 0
    watch_repeat: float = 0
    watch_expired: float = 0
    hang_s: float = 1.0


REQUEST_FAULTS = ("error_500", "conflict_409", "busy_429", "hang", "lost_answer", "expired_410")
WATCH_FAULTS = ("watch_cut", "watch_stall", "watch_repeat", "watch_expired")
assert {field.name for field in fields(Faults)} == {*REQUEST_FAULTS, *WATCH_FAULTS, "hang_s"}

BAD_DAY = Faults(
    error_500=0.02,
    conflict_409=0.02,
    busy_429=0.01,
    hang=0.005,
    lost_answer=0.02,
    expired_410=0.01,
    watch_cut=0.01,
    watch_stall=0.002,
    watch_repeat=0.05,
    watch_expired=0.005,
)
"""A bit of everything."""

Matches = Callable[[str, str], bool]
"""Whether a request is meant, by its method and its target."""


class FaultProxy:
    """Attributes: counts: how often each fault came; "requests" counts all requests."""

    def __init__(self, plane: ControlPlane, faults: Faults = Faults(), seed: int = 0) -> None:
        self.faults = faults
        self.counts: Counter[str] = Counter()
        self._upstream = urlsplit(plane.url)
        self._tls = ssl.create_default_context(cafile=plane.authority)
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._wanted: list[tuple[Matches, str]] = []
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="fault-proxy")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Break off everything that goes on."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def once(self, fault: str, matches: Matches = lambda _method, _target: True) -> None:
        """The next request that matches meets this fault, whatever is drawn."""
        with self._lock:
            self._wanted.append((matches, fault))

    def fault_of(self, method: str, target: str) -> str | None:
        """What happens to this request."""
        with self._lock:
            self.counts["requests"] += 1
            fault = self._wanted_fault(method, target) or self._drawn(REQUEST_FAULTS)
            writes = method in {"PUT", "PATCH", "POST"} and not target.startswith(QUESTIONS)
            if fault == "conflict_409" and not writes:
                return None
            if fault == "expired_410" and not {"watch", "continue"} & parse_qs(urlsplit(target).query).keys():
                return None
            if fault is not None:
                self.counts[fault] += 1
            return fault

    def fault_of_line(self) -> str | None:
        """What happens to this line of a watch."""
        with self._lock:
            fault = self._drawn(WATCH_FAULTS)
            if fault is not None:
                self.counts[fault] += 1
            return fault

    def chosen(self, lines: deque[bytes]) -> bytes:
        with self._lock:
            return self._random.choice(lines)

    def upstream(self) -> http.client.HTTPSConnection:
        host, port = self._upstream.hostname or "", self._upstream.port
        return http.client.HTTPSConnection(host, port, timeout=UPSTREAM_S, context=self._tls)

    def _wanted_fault(self, method: str, target: str) -> str | None:
        for number, (matches, fault) in enumerate(self._wanted):
            if matches(method, target):
                del self._wanted[number]
                return fault
        return None

    def _drawn(self, names: tuple[str, ...]) -> str | None:
        drawn = self._random.random()
        for name in names:
            drawn -= getattr(self.faults, name)
            if drawn < 0:
                return name
        return None


@contextmanager
def fault_proxy(plane: ControlPlane, faults: Faults = Faults(), seed: int = 0) -> Iterator[FaultProxy]:
    proxy = FaultProxy(plane, faults, seed)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], proxy: FaultProxy) -> None:
        super().__init__(address, _Handler)
        self.proxy = proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is nothing to tell."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.fault_of(self.command, self.path)
        match fault:
            case "error_500":
                self._refuse(500, "InternalError", "injected: etcdserver: request timed out")
            case "conflict_409":
                self._refuse(409, "Conflict", "injected: the object has been modified")
            case "busy_429":
                self._refuse(429, "TooManyRequests", "injected: too many requests", {"Retry-After": "1"})
            case "expired_410":
                self._refuse(410, "Expired", "injected: too old resource version")
            case "hang":
                proxy.closing.wait(proxy.faults.hang_s)
                self.close_connection = True
            case _:
                self._pass_on(body, lose_answer=fault == "lost_answer")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of http.server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def _refuse(self, code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
        self._send(
            code, json.dumps({**status, "code": code}).encode(), {"Content-Type": "application/json", **(headers or {})}
        )

    def _send(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _pass_on(self, body: bytes, *, lose_answer: bool) -> None:
        upstream = self.server.proxy.upstream()
        try:
            headers = {name: value for name, value in self.headers.items() if name not in {"Host", "Connection"}}
            upstream.request(self.command, self.path, body or None, headers)
            answer = upstream.getresponse()
            query = parse_qs(urlsplit(self.path).query)
            if answer.status == 200 and {"watch", "follow"} & query.keys():
                self._stream(answer, watch="watch" in query)
                return
            whole = answer.read()
            if lose_answer:
                self.close_connection = True
                return
            kept = ("Content-Type", "Retry-After")
            self._send(answer.status, whole, {name: answer.headers[name] for name in kept if answer.headers[name]})
        except (OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            upstream.close()

    def _stream(self, answer: http.client.HTTPResponse, *, watch: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        before: deque[bytes] = deque(maxlen=REMEMBERED_LINES)
        while not self.server.proxy.closing.is_set() and (line := _line(answer)):
            if watch and not self._faulty(line, before):
                return
            self._chunk(line)
            before.append(line)
        with suppress(OSError):
            self.wfile.write(b"0\r\n\r\n")

    def _faulty(self, line: bytes, before: deque[bytes]) -> bool:
        """Do what happens before a line of a watch; whether the watch goes on."""
        proxy = self.server.proxy
        match proxy.fault_of_line():
            case "watch_cut":
                self._chunk(line[: len(line) // 2])
                return False
            case "watch_stall":
                proxy.closing.wait(proxy.faults.hang_s)
                return False
            case "watch_repeat" if before:
                self._chunk(proxy.chosen(before))
            case "watch_expired":
                status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "injected: too old"}
                self._chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
                return False
        return True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def _line(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.readline()
    except (OSError, ValueError, http.client.HTTPException):
        return b""
