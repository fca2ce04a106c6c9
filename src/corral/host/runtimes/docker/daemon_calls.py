"""Calls to the Docker daemon of this host. Docker's own variables say where it is (DOCKER_HOST and its like)."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, TypeVar

import docker
import requests
import urllib3
from docker.errors import APIError, DockerException, NotFound
from docker.utils import kwargs_from_env

from corral.unix_peer import peer_of

T = TypeVar("T")

TIMEOUT_S = 60.0
LOOK_TIMEOUT_S = 10.0
"""The longest wait of a server for an answer. Afterwards the question is repeated."""
_PAUSE_S = 0.2
_MOST_PAUSE_S = 2.0
_IN_TROUBLE = 500
_MESSAGE_BYTES = 64 * 1024
_NO_KEYS = ",".join(["ctrl-@", "ctrl-^", "ctrl-_", "ctrl-]"] * 4)
"""The key sequence by which Docker detaches from a terminal: keys that no user types."""

_UNREACHABLE = (requests.RequestException, urllib3.exceptions.HTTPError, OSError)


def address() -> str:
    """Return the address of the daemon, for display."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def process() -> int | None:
    """Return a process of the daemon, or of its listener on this host; None if unknown."""
    scheme, _, path = address().partition("://")
    if scheme != "unix":
        return None
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.settimeout(LOOK_TIMEOUT_S)
            asking.connect(path)
            return peer_of(asking).pid or None
        except OSError:
            return None


class DaemonUnreachable(Exception):
    """The daemon does not answer. The request may have been carried out."""


class DaemonRefused(Exception):
    """The daemon answers, and says why not. `status` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Daemon:
    """One connection, for one thread. Each call raises DaemonUnreachable or DaemonRefused."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        with _told():
            self._api = docker.APIClient(version="auto", timeout=timeout_s, **kwargs_from_env())

    def close(self) -> None:
        """Close the connection."""
        self._api.close()

    def info(self) -> dict[str, Any]:
        """Return the daemon's information about itself."""
        with _told():
            return dict(self._api.info())

    def has_image(self, image: str) -> bool:
        """Return whether the image is on this host."""
        with _told():
            try:
                self._api.inspect_image(image)
            except NotFound:
                return False
            return True

    def workdir_of(self, image: str) -> str:
        """Return the working directory of an image. Raises DaemonRefused, also if there is no such image."""
        with _told():
            return str(dict(self._api.inspect_image(image).get("Config") or {}).get("WorkingDir") or "/")

    def config_of(self, image: str) -> dict[str, Any] | None:
        """Return the configuration of an image, which whoever built it wrote; None if it is not on this host."""
        with _told():
            try:
                return dict(self._api.inspect_image(image).get("Config") or {})
            except NotFound:
                return None

    def running(self, tag: str) -> list[str]:
        """Return the names of the running containers of the server with this tag."""
        from corral.host.runtimes.docker.container_request import SERVER

        with _told():
            found = self._api.containers(filters={"label": f"{SERVER}={tag}"})
        return [str(one["Names"][0]).removeprefix("/") for one in found if one.get("Names")]

    def pull(self, image: str, credentials: dict[str, str] | None) -> Iterator[dict[str, Any]]:
        """Pull the image. Yield the daemon's progress messages."""
        with _told():
            # Without credentials the library would use those of the server.
            yield from self._api.pull(image, stream=True, decode=True, auth_config=credentials or {})

    def create(self, name: str, body: dict[str, Any]) -> str:
        """Create a container, and return its id."""
        with _told():
            return str(self._api.create_container_from_config(body, name)["Id"])

    def start(self, container: str) -> None:
        """Start a container. Does nothing if it runs."""
        with _told():
            self._api.start(container)

    def inspect(self, container: str) -> dict[str, Any] | None:
        """Return the daemon's state of a container, by its id or name, or None."""
        with _told():
            try:
                return dict(self._api.inspect_container(container))
            except NotFound:
                return None

    def stop(self, container: str, grace_s: float) -> None:
        """End a container: its stop signal, then after the grace SIGKILL. Returns when the container has ended."""
        with _told():
            self._api.stop(container, timeout=int(grace_s + 0.999))

    def kill(self, container: str, signal: str) -> None:
        """Send a signal to the container's first process. Does nothing if the container does not run."""
        with _told():
            try:
                self._api.kill(container, signal)
            except APIError as error:
                if error.response is None or error.response.status_code not in (404, 409):
                    raise

    def signals_sent(self, container: str) -> frozenset[int]:
        """Return the signals that Docker has sent to a container, at any client's request, as far back as the daemon
        remembers.
        """
        wanted = {"container": container, "event": "kill"}
        with _told():
            events = self._api.events(since=1, until=f"{time.time():.9f}", filters=wanted, decode=True)
            sent = [dict(event.get("Actor") or {}).get("Attributes", {}).get("signal", "") for event in events]
        return frozenset(int(number) for number in sent if number.isdecimal())

    def make_command(self, container: str, words: list[str], env: dict[str, str], *, terminal: bool) -> str:
        """Create a command inside a running container, and return the command's id. `start_command` starts it."""
        with _told():
            made = self._api.exec_create(
                container, words, stdin=True, tty=terminal, environment=env, detach_keys=_NO_KEYS
            )
            return str(made["Id"])

    def start_command(self, command: str, *, terminal: bool) -> tuple[socket.socket, bytes]:
        """Start the command. Return a connection with its streams, and the output that has come already.

        Docker frames the output of a command without a terminal. Raises DaemonRefused if the daemon is not on this
        host.
        """
        scheme, _, path = address().partition("://")
        if scheme != "unix":
            raise DaemonRefused(f"commands are run by a daemon of this host, and {address()} is none", _IN_TROUBLE)
        body = json.dumps({"Detach": False, "Tty": terminal}).encode()
        head = (
            f"POST /v{self._api.api_version}/exec/{command}/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\n"
            f"Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with _told():
            line = socket.socket(socket.AF_UNIX)
            line.settimeout(TIMEOUT_S)
            line.connect(path)
            line.sendall(head.encode() + body)
            got = b""
            while b"\r\n\r\n" not in got:
                if not (piece := line.recv(4096)):
                    raise ConnectionResetError("it has hung up")
                got += piece
            said, _, rest = got.partition(b"\r\n\r\n")
            status = int(said.split(None, 2)[1])
            if status not in (101, 200):
                raise DaemonRefused(_message_in(rest or line.recv(_MESSAGE_BYTES)), status)
            line.settimeout(None)
            return line, rest

    def resize_command(self, command: str, rows: int, columns: int) -> None:
        """Set the size of a command's terminal."""
        with _told():
            self._api.exec_resize(command, height=rows, width=columns)

    def command(self, command: str) -> dict[str, Any]:
        """Return the state of the command: its process on this host, its exit code."""
        with _told():
            return dict(self._api.exec_inspect(command))

    def remove(self, container: str) -> None:
        """Remove a container with its own volumes; kill it first if it runs. Does nothing if there is none."""
        with _told():
            try:
                self._api.remove_container(container, v=True, force=True)
            except NotFound:
                return

    def output(self, container: str, since: str, *, follow: bool) -> Iterator[bytes]:
        """Yield a container's output with times, framed by Docker, from the time `since` on ("": from the
        beginning).
        """
        url = f"{self._api.base_url}/v{self._api.api_version}/containers/{container}/logs"
        asked = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": str(int(follow)), "since": since or "0"}
        with _told():
            # A container may be silent for any time, so following has no time limit.
            answer = self._api.get(url, params=asked, stream=True, timeout=(TIMEOUT_S, None if follow else TIMEOUT_S))
            with closing(answer):
                answer.raise_for_status()
                yield from answer.iter_content(None)


def patiently(ask: Callable[[], T], *, for_s: float | None = None) -> T:
    """Return the answer of `ask`. Repeat it while the daemon does not answer: without limit, or for `for_s` seconds.

    Raises DaemonRefused, and DaemonUnreachable after the limit.
    """
    until = None if for_s is None else time.monotonic() + for_s
    pause_s = _PAUSE_S
    while True:
        try:
            return ask()
        except DaemonUnreachable:
            if until is not None and time.monotonic() >= until:
                raise
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _MOST_PAUSE_S)


def _message_in(body: bytes) -> str:
    """Return the message in the body of an error."""
    text = body.decode(errors="replace").strip()
    with suppress(ValueError, AttributeError):
        text = str(json.loads(text[text.index("{") : text.rindex("}") + 1]).get("message"))
    return text


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except APIError as error:
        status = _IN_TROUBLE if error.response is None else error.response.status_code
        raise DaemonRefused(str(error.explanation or error).strip(), status) from error
    except requests.HTTPError as error:
        status = _IN_TROUBLE if error.response is None else error.response.status_code
        raise DaemonRefused(str(error), status) from error
    except (*_UNREACHABLE, DockerException) as error:
        raise DaemonUnreachable(_why(error)) from error


def _why(error: BaseException) -> str:
    """Return the innermost reason, without the layers of libraries around it."""
    while error.__context__ is not None:
        error = error.__context__
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
