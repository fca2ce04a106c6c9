"""The TCP address that a server listens on besides its Unix socket."""

from dataclasses import dataclass
from pathlib import Path

from corral.api.connections.tls import Certificate, TlsAcceptor
from corral.api.server import tcp_socket
from corral.core.model.devices.address import is_loopback
from corral.core.model.errors import Refused


@dataclass(frozen=True, slots=True)
class Listening:
    """HOST:PORT to listen on, a certificate and its key, and the authorities of clients' certificates.

    `insecure` lets other machines connect without encryption.
    """

    address: str
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False
    client_ca: Path | None = None


class TcpListener:
    """A listening TCP socket and its TLS certificate; None for plain HTTP.

    Raises Refused as `tcp_socket` and `Certificate` do.
    """

    def __init__(self, listening: Listening) -> None:
        self.certificate: Certificate | None = None
        if (listening.certificate is None) != (listening.key is None):
            raise Refused("--tls-cert and --tls-key go together; give both", field="--tls-cert")
        if listening.certificate is not None and listening.key is not None:
            self.certificate = Certificate(listening.certificate, listening.key, listening.client_ca)
        elif listening.client_ca is not None:
            raise Refused("--tls-client-ca needs --tls-cert and --tls-key; give them, too", field="--tls-client-ca")
        encrypted = self.certificate is not None
        self.socket = tcp_socket(listening.address, encrypted=encrypted, insecure=listening.insecure)

    @property
    def url(self) -> str:
        """The URL of the bound address, for clients."""
        host, port = self.socket.getsockname()[:2]
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def loopback_url(self) -> str | None:
        """The URL at which browsers of this machine need no certificate. None if there is none."""
        plain = self.certificate is None and is_loopback(self.socket.getsockname()[0])
        return self.url if plain else None

    def acceptor(self) -> TlsAcceptor | None:
        """The acceptor of TLS connections; None for plain HTTP."""
        return None if self.certificate is None else TlsAcceptor(self.socket, self.certificate)

    def renew_certificate(self) -> None:
        """Read the certificate again, if there is one."""
        if self.certificate is not None:
            self.certificate.renew()
