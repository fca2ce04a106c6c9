"""Ways to a real API server: certificates, tokens, programs, proxies, and what is said where one leads nowhere."""

import select
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import ClusterNotTrusted, ClusterUnreachable, NotAuthenticated
from corral.engines.kubernetes.cluster.resource import NODES
from tests.engines.kubernetes.control_plane import ADMIN, ControlPlane


class Ways:
    """Makes clients by kubeconfigs that differ in their cluster and user."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane = plane
        self.directory = directory
        self._made: list[Cluster] = []

    def by(self, user: dict[str, Any], **cluster: Any) -> Cluster:
        content = yaml.safe_load(self.plane.kubeconfig(self.directory / "config").read_text())
        content["users"][0]["user"] = user
        merged = content["clusters"][0]["cluster"] | {key.replace("_", "-"): value for key, value in cluster.items()}
        content["clusters"][0]["cluster"] = {key: value for key, value in merged.items() if value is not None}
        path = self.directory / "config"
        path.write_text(yaml.safe_dump(content))
        self._made.append(Cluster.connect(str(path)))
        return self._made[-1]

    def close(self) -> None:
        for cluster in self._made:
            cluster.close()


@pytest.fixture
def ways(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Ways]:
    ways = Ways(control_plane, tmp_path)
    yield ways
    ways.close()


TOKEN = {"token": ADMIN}


def test_a_client_certificate_says_who_asks(ways: Ways) -> None:
    files = {
        f"client-{part}": f"{ways.plane.directory}/clients.{end}"
        for part, end in (("certificate", "crt"), ("key", "key"))
    }
    assert ways.by(files).can_i("list", NODES)


def test_a_certificate_whose_key_is_another_is_refused_in_words(ways: Ways) -> None:
    user = {
        "client-certificate": f"{ways.plane.directory}/clients.crt",
        "client-key": f"{ways.plane.directory}/service-accounts.key",
    }
    with pytest.raises(NotAuthenticated, match="do not belong together"):
        ways.by(user).version()


def test_a_token_that_is_wrong_is_told_from_a_missing_right(ways: Ways) -> None:
    with pytest.raises(NotAuthenticated, match="does not know who asks"):
        ways.by({"token": "wrong"}).list(NODES)


def test_a_token_that_was_replaced_in_its_file_is_read_again(ways: Ways) -> None:
    path = ways.directory / "token"
    path.write_text(ADMIN)
    cluster = ways.by({"tokenFile": str(path)})
    cluster.list(NODES)
    path.write_text("expired")
    cluster.list(NODES)
    other = ways.by({"tokenFile": str(path)})
    with pytest.raises(NotAuthenticated):
        other.list(NODES)
    path.write_text(ADMIN)
    other.list(NODES)


def test_a_program_is_asked_again_when_its_token_was_not_taken(ways: Ways) -> None:
    seen = ways.directory / "seen"
    program = f"""
import json, pathlib
seen = pathlib.Path({str(seen)!r})
token = {ADMIN!r} if seen.exists() else "expired"
seen.touch()
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "status": {{"token": token}}}}))
"""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", program],
        "interactiveMode": "Never",
    }
    ways.by({"exec": plugin}).list(NODES)


def test_a_server_that_nobody_vouches_for_is_not_spoken_to_unless_that_is_allowed(ways: Ways) -> None:
    with pytest.raises(ClusterNotTrusted, match=r"is not trusted: .*certificate-authority"):
        ways.by(TOKEN, certificate_authority=None).version()
    ways.by(TOKEN, certificate_authority=None, insecure_skip_tls_verify=True).version()


def test_a_server_can_have_another_name_in_its_certificate(ways: Ways) -> None:
    ways.by(TOKEN, tls_server_name="kubernetes.default.svc").version()
    with pytest.raises(ClusterNotTrusted, match="is not trusted"):
        ways.by(TOKEN, tls_server_name="elsewhere.test").version()


def test_an_address_where_nobody_ever_answered_is_named_soon(ways: Ways) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(ClusterUnreachable, match=f"{url} cannot be reached"):
        ways.by(TOKEN, server=url).version(timeout_s=600)


def test_what_the_environment_says_of_proxies_and_certificates_does_not_count(
    ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    ways.by(TOKEN).version()


class _Tunnel(socketserver.StreamRequestHandler):
    """CONNECT, as of an HTTP proxy."""

    def handle(self) -> None:
        target = self.rfile.readline().split()[1].decode()
        while self.rfile.readline().strip():
            pass
        self.server.targets.append(target)  # type: ignore[attr-defined]
        host, _, port = target.rpartition(":")
        with socket.create_connection((host, int(port))) as upstream:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            sides = {self.connection: upstream, upstream: self.connection}
            while True:
                for side in select.select(list(sides), [], [])[0]:
                    data = side.recv(65536)
                    if not data:
                        return
                    sides[side].sendall(data)


def test_a_proxy_that_the_kubeconfig_names_is_gone_through(ways: Ways) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Tunnel) as proxy:
        proxy.daemon_threads = True
        proxy.targets = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
        thread.start()
        try:
            cluster = ways.by(TOKEN, proxy_url=f"http://127.0.0.1:{proxy.server_address[1]}")
            cluster.version()
            cluster.close()
        finally:
            proxy.shutdown()
            thread.join()
        assert [f"https://{target}" for target in proxy.targets] == [ways.plane.url]  # type: ignore[attr-defined]
