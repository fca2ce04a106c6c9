"""TLS to a server: the certificates to trust, and the errors if a connection fails."""

import socket
import ssl

from corral.client.connecting.address import Address
from corral.client.connecting.transport import NoServer, UntrustedServer
from corral.core.model.errors import CorralError, Refused


def trusting(address: Address) -> ssl.SSLContext:
    """A context that trusts the certificates that the address names. Raises Refused if they cannot be used."""
    try:
        return ssl.create_default_context(cafile=address.ca_file)
    except OSError as error:
        why = "it holds no certificates in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
        raise Refused(f"CORRAL_CA_FILE: cannot use {address.ca_file}: {why}", field="CORRAL_CA_FILE") from None


def encrypted(sock: socket.socket, host: str, context: ssl.SSLContext, address: Address) -> ssl.SSLSocket:
    """The connection with TLS. Raises UntrustedServer, NoServer if the other end does not speak TLS, and OSError."""
    try:
        return context.wrap_socket(sock, server_hostname=host)
    except ssl.SSLError as error:
        raise _mistrust(address, error) from error


def _mistrust(address: Address, error: ssl.SSLError) -> CorralError:
    if isinstance(error, ssl.SSLCertVerificationError):
        trusted = f"those in {address.ca_file}" if address.ca_file else "those of this system"
        return UntrustedServer(
            f"the certificate of {address} is not to be trusted ({error.verify_message}; trusted are {trusted}), "
            "so nothing was sent to it; if it is the server's own, set CORRAL_CA_FILE to a copy of it that you trust"
        )
    return NoServer(
        f"the server at {address} does not speak TLS as this client does ({error.reason or error}); "
        "where it is served without a certificate, write http://"
    )
