"""Sends reports to a server of Corral, over one kept connection, with the pod's token as it now is in its file."""

import gzip
import http.client
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.printable import printable

PATH = "/api/v1/agent-reports"

ANSWER_S = 10.0
"""A server that has not answered after so long is away."""

_MOST_ANSWER_BYTES = 64 * 1024
_LONGEST_WORDS = 500


class ReportSender:
    """One server at `https://HOST:PORT`. For one thread.

    `token_file` is read for each report, because a kubelet replaces the token within the hour, and `ca_file` for each
    connection: the certificates to trust, None for the system's. Raises Refused for another URL.
    """

    def __init__(self, url: str, token_file: Path, ca_file: Path | None) -> None:
        parts = _parts(url)
        self._url = url
        self._host, self._port = parts
        self._token_file = token_file
        self._ca_file = ca_file
        self._line: http.client.HTTPSConnection | None = None

    def send(self, body: bytes) -> None:
        """Send the bytes of a report. Raises BackendFailed, which says why it was not taken."""
        token = self._token()
        try:
            # Texts repeat from device to device: a report is a tenth of its size.
            status, said = self._sent(gzip.compress(body, 1), token)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise BackendFailed(f"the certificate of {self._url} is not trusted: {error.verify_message}") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise BackendFailed(f"{self._url} does not answer: {str(error) or type(error).__name__}") from None
        if status >= 300:
            raise BackendFailed(f"{self._url} does not take the report ({status}): {_words(said)}")

    def close(self) -> None:
        """Close the connection. The next report opens another."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _sent(self, body: bytes, token: str) -> tuple[int, bytes]:
        line = self._line
        try:
            return self._exchange(line or self._opened(), body, token)
        except (ConnectionError, ssl.SSLEOFError):
            # The server may have closed a kept connection meanwhile. A report may be sent twice.
            if line is None:
                raise
            self.close()
        return self._exchange(self._opened(), body, token)

    def _exchange(self, line: http.client.HTTPSConnection, body: bytes, token: str) -> tuple[int, bytes]:
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        line.request("POST", PATH, body, headers)
        answer = line.getresponse()
        said = answer.read(_MOST_ANSWER_BYTES)
        if answer.will_close or not answer.isclosed():
            self.close()
        return answer.status, said

    def _opened(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=None if self._ca_file is None else str(self._ca_file))
        self._line = http.client.HTTPSConnection(self._host, self._port, timeout=ANSWER_S, context=context)
        return self._line

    def _token(self) -> str:
        try:
            token = self._token_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise BackendFailed(f"the token in {self._token_file} cannot be read: {error}") from None
        if not token or not token.isprintable():
            raise BackendFailed(f"{self._token_file} has no token")
        return token


def _parts(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise Refused(
            f"{url!r:.200} is not the address of a server; write https://HOST:PORT: a token is sent by HTTPS alone",
            field="server",
        )
    return parts.hostname, port or 443


def _words(said: bytes) -> str:
    """Return the reason in the answer of a server."""
    try:
        told = str(json.loads(said)["error"]["message"])
    except (ValueError, TypeError, KeyError, RecursionError):
        told = said.decode(errors="replace") or "it gives no reason"
    return printable(told)[:_LONGEST_WORDS]
