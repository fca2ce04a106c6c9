"""The port of a kubelet, at which an API server reads logs and has commands run."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.certificates import make_certificate

ADDRESS = "127.0.0.1"


class KubeletPort:
    """Answers requests by a handler, over TLS, from `start` to `close`."""

    def __init__(self, directory: Path, name: str, handler: type[BaseHTTPRequestHandler]) -> None:
        """`directory` is where its certificate, for `name`, is written."""
        self._server = ThreadingHTTPServer((ADDRESS, 0), handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*make_certificate(directory, name))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def in_status(self) -> dict[str, Any]:
        """What the status of a node says of it."""
        endpoint = {"kubeletEndpoint": {"Port": self._server.server_address[1]}}
        return {"addresses": [{"type": "InternalIP", "address": ADDRESS}], "daemonEndpoints": endpoint}

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
