"""A server that takes reports of agents, over a real API server."""

import http.client
import socket
import ssl
import time
from pathlib import Path

from tests.certificates import make_certificate
from tests.engines.kubernetes.agent_reports.agents import make_account, make_agent_pod, token_of
from tests.engines.kubernetes.control_plane import reserved_port
from tests.engines.kubernetes.engine.site import Site
from tests.engines.kubernetes.nodes import make_node

PATH = "/api/v1/agent-reports"
PATIENCE_S = 60.0


class Reporting:
    """A server with TLS over a real API server, two nodes, and the pods of their agents."""

    def __init__(self, site: Site, directory: Path) -> None:
        self.site = site
        cluster, namespace = site.cluster, site.namespace
        self.nodes = [f"{site.prefix}-{number}" for number in range(2)]
        for name in self.nodes:
            make_node(cluster, name, gpus=1)
        account = make_account(cluster, namespace)
        self.uids = [make_agent_pod(cluster, namespace, f"agent-{name}", name) for name in self.nodes]
        self.tokens = [
            token_of(cluster, namespace, (f"agent-{name}", uid))
            for name, uid in zip(self.nodes, self.uids, strict=True)
        ]
        self.certificate, self._key = make_certificate(directory)
        self._reserved = reserved_port()
        self.port = self._reserved.getsockname()[1]
        site.home.mkdir()
        (site.home / "config.yaml").write_text(f"kubernetes:\n  agent_account: {account}\n")

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def up(self) -> None:
        """Start the server; until then nothing listens at its address."""
        self._reserved.close()
        tls = ("--tls-cert", str(self.certificate), "--tls-key", str(self._key))
        self.site.up("--listen", f"127.0.0.1:{self.port}", *tls)

    def post(self, body: bytes, token: str | None, *, encoding: str | None = None) -> tuple[int, str]:
        """Send a report once the server may know the agent's pod and takes the next report of its node."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self.post_once(body, token, encoding=encoding))[0] == http.HTTPStatus.SERVICE_UNAVAILABLE:
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)
        return answer

    def post_once(self, body: bytes, token: str | None, *, encoding: str | None = None) -> tuple[int, str]:
        """Send a report. Returns the status, and what the server says."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        line = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=context)
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        if encoding is not None:
            headers["content-encoding"] = encoding
        line.request("POST", PATH, body, headers)
        answer = line.getresponse()
        said = answer.read().decode()
        line.close()
        return answer.status, said

    def at_socket(self, body: bytes, token: str) -> int:
        """Send a report to the server's own socket."""
        line = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        line.sock = socket.socket(socket.AF_UNIX)
        line.sock.connect(str(self.site.home / "corral.sock"))
        line.request("POST", PATH, body, {"authorization": f"Bearer {token}"})
        status = line.getresponse().status
        line.close()
        return status
