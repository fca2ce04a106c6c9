"""A kubelet's side of `exec`, over a WebSocket: runs a command and sends what it writes and how it ended."""

import json
import subprocess
from http.server import BaseHTTPRequestHandler
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection

PROTOCOL = "v4.channel.k8s.io"


def serve_exec(handler: BaseHTTPRequestHandler, command: list[str]) -> None:
    """Answer a request to run a command, which runs on this host."""
    socket = WSConnection(ConnectionType.SERVER)
    socket.initiate_upgrade_connection([(k.encode(), v.encode()) for k, v in handler.headers.items()], handler.path)
    handler.wfile.write(socket.send(AcceptConnection(subprotocol=PROTOCOL)))
    stdout, stderr, status = _ran(command)
    for channel, data in ((1, stdout), (2, stderr), (3, json.dumps(status).encode())):
        # As of programs that write bit by bit.
        for start in range(0, len(data), 1000):
            handler.wfile.write(socket.send(BytesMessage(bytes([channel]) + data[start : start + 1000])))
    handler.wfile.write(socket.send(CloseConnection(1000)))
    handler.wfile.flush()


def _ran(command: list[str]) -> tuple[bytes, bytes, dict[str, Any]]:
    try:
        done = subprocess.run(command, capture_output=True)
    except OSError as error:
        return b"", b"", {"status": "Failure", "reason": "InternalError", "message": f"exec: {error}"}
    if done.returncode == 0:
        return done.stdout, done.stderr, {"status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(done.returncode)}]
    failed = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    return done.stdout, done.stderr, failed
