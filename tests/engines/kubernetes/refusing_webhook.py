"""A real webhook that lets nothing of a kind into a namespace, as policies of clusters do."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NAMESPACES, ResourceType
from tests.certificates import make_certificate

WORDS = "only what was approved"

_WEBHOOKS = ResourceType(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)


class _Refuse(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["response"] = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": WORDS}}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def refusing_webhook(cluster: Cluster, namespace: str, directory: Path, *, group: str, resource: str) -> Iterator[None]:
    """Refuses, with WORDS, whatever of this kind is created in the namespace. A subresource is "pods/binding"."""
    certificate, key = make_certificate(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refuse)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_address[1]}/"
    # A namespace selector passes every object of the whole cluster: without this scope other tests' ones are refused.
    created = {"operations": ["CREATE"], "scope": "Namespaced"}
    webhook = {
        "name": "refuse.corral.test",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(certificate.read_bytes()).decode()},
        "rules": [{"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], **created}],
        "namespaceSelector": {"matchLabels": {"refused": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    cluster.patch(NAMESPACES, namespace, {"metadata": {"labels": {"refused": namespace}}})
    cluster.create(_WEBHOOKS, {"metadata": {"name": f"refuse-{namespace}"}, "webhooks": [webhook]})
    try:
        yield
    finally:
        cluster.delete(_WEBHOOKS, f"refuse-{namespace}")
        server.shutdown()
        server.server_close()
