"""TLS for the TCP socket: the certificate, and handshakes that do not block other connections."""

import asyncio
import contextlib
import logging
import socket
import ssl
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from corral.core.model.errors import Refused

HANDSHAKE_TIMEOUT_S = 10.0
FAREWELL_TIMEOUT_S = 0.5
"""The longest wait for a client to close its side. A client that does not close would delay the stop of the server."""

MOST_HANDSHAKES = 256
"""The most handshakes at once. One more ends the oldest; a normal handshake takes milliseconds."""

_ACCEPT_AGAIN_S = 0.1

log = logging.getLogger(__name__)


class Certificate:
    """A certificate and its key, read from two PEM files. `renew` reads the files again.

    With `client_ca`, the certificates of authorities, a client may show a certificate that one of them has signed. A
    client that shows another is refused; one that shows none is served all the same.

    Raises Refused if the files cannot be used, or if other users may read the key.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._paths = certificate, key, client_ca
        self.context = _context(certificate, key, client_ca)

    def renew(self) -> None:
        """Read the files again, for new connections. If they are unusable, log why and keep the old certificate."""
        try:
            self.context = _context(*self._paths)
        except Refused as error:
            log.error("the certificate was not reloaded; the previous one stays in use: %s", error)


class TlsAcceptor:
    """Accepts connections on a listening socket, and hands over those whose handshake is done."""

    def __init__(self, listener: socket.socket, certificate: Certificate) -> None:
        self._listener = listener
        self._certificate = certificate
        self._make_protocol: Callable[[], asyncio.Protocol] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._again: asyncio.TimerHandle | None = None
        self._handshakes: dict[asyncio.Task[bool], None] = {}

    def start(self, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        """Begin to accept, on the running loop."""
        self._listener.setblocking(False)
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._listen(self._loop)

    def close(self) -> None:
        """Accept no more connections, and cancel the handshakes that are not done."""
        if self._loop is not None:
            self._loop.remove_reader(self._listener)
        if self._again is not None:
            self._again.cancel()
        for task in self._handshakes:
            task.cancel()
        self._listener.close()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        # `sock_accept` does not fit: if it is cancelled, it loses the connection that it has just accepted.
        loop.add_reader(self._listener, self._accept, loop)

    def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept one connection. The loop calls again for the next one, after other work has had its turn."""
        assert self._make_protocol is not None
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return  # the client has gone already
        except OSError as error:
            log.warning("cannot accept a connection: %s", error.strerror)
            loop.remove_reader(self._listener)
            self._again = loop.call_later(_ACCEPT_AGAIN_S, self._listen, loop)
            return
        connection.setblocking(False)
        if len(self._handshakes) >= MOST_HANDSHAKES:
            next(iter(self._handshakes)).cancel()
        task = loop.create_task(self._shake_hands(connection, self._make_protocol))
        self._handshakes[task] = None
        task.add_done_callback(partial(self._finish, connection))

    async def _shake_hands(self, connection: socket.socket, make_protocol: Callable[[], asyncio.Protocol]) -> bool:
        """Do the TLS handshake. Return whether the protocol owns the connection now."""
        # A client that speaks no TLS, trusts another certificate or goes away is normal, and not logged.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                make_protocol,
                connection,
                ssl=self._certificate.context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                ssl_shutdown_timeout=FAREWELL_TIMEOUT_S,
            )
            return True
        return False

    def _finish(self, connection: socket.socket, task: asyncio.Task[bool]) -> None:
        # This is not done in the task, because a task that is cancelled before it began runs no code at all.
        self._handshakes.pop(task)
        if task.cancelled() or task.exception() is not None or not task.result():
            connection.close()


def _context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    _check_file(certificate, "--tls-cert")
    mode, by_root = _check_file(key, "--tls-key")
    # The rule of PostgreSQL: if root owns the key, a group may read it.
    if mode & (0o007 if by_root else 0o077):
        raise Refused(
            f"--tls-key: other users may read {key} (mode {mode:o}); forbid it: chmod 600 {key}", field="--tls-key"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise Refused(f"{_unusable(certificate, key, error)}", field="--tls-cert") from None
    except OSError as error:
        # The files existed a moment ago, so they are being replaced.
        raise Refused(f"cannot read {certificate} and {key}: {error.strerror}", field="--tls-cert") from None
    if client_ca is not None:
        _trust(context, client_ca)
    return context


def _trust(context: ssl.SSLContext, client_ca: Path) -> None:
    """Ask clients for a certificate, and trust what these authorities have signed."""
    _check_file(client_ca, "--tls-client-ca")
    try:
        context.load_verify_locations(client_ca)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise Refused(
            f"--tls-client-ca: {client_ca} has no certificates in PEM format ({reason})", field="--tls-client-ca"
        ) from None
    context.verify_mode = ssl.CERT_OPTIONAL


def _check_file(path: Path, option: str) -> tuple[int, bool]:
    """The mode of a readable file, and whether root owns it. Raises Refused."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{option}: {path} is not a file", field=option)
        path.open("rb").close()
    except OSError as error:
        raise Refused(f"{option}: cannot read {path}: {error.strerror}", field=option) from None
    return stat.S_IMODE(status.st_mode), status.st_uid == 0


def _no_password() -> str:
    raise ValueError("the key is encrypted, and the server cannot ask for a passphrase")


def _unusable(certificate: Path, key: Path, error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return f"the key {key} does not belong to the certificate {certificate}; give a matching pair"
    if isinstance(error, ssl.SSLError):
        return f"{certificate} and {key} are not a certificate and key in PEM format ({error.reason or error})"
    return f"{key}: {error}; remove the passphrase: openssl pkey -in {key} -out KEY"
