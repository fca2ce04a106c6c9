"""Submits over HTTP on a server's Unix socket: one by one from 8 clients, and 1,000 in a batch.

`python -m bench.api` prints each figure beside its goal. A submission carries an environment of 20 variables. The
clients are connections of one process, so that on two cores one is the server's.
"""

import json
import selectors
import socket
import time

from bench.server import throw_away

CLIENTS = 8
SUBMITS = 8_000
BATCH = 1_000
SUBMISSION = {
    "command": ["python", "train.py", "--seed=1"],
    "workdir": "/",
    "held": True,
    "env": {f"VARIABLE_{i}": f"/some/value/of/it/number/{i}" for i in range(20)},
}


def main() -> None:
    with throw_away() as server:
        one_by_one(str(server.socket))
        in_a_batch(str(server.socket))


def request_of(path: str, body: object) -> bytes:
    raw = json.dumps(body, separators=(",", ":")).encode()
    head = f"POST /api/v1{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


def connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def take_answer(connection: socket.socket) -> None:
    answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 201"), answer
    # The server sends head and body apart; the small JSON object of the body ends with its only closing brace.
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)


def one_by_one(path: str) -> None:
    request = request_of("/jobs", SUBMISSION)
    selector = selectors.DefaultSelector()
    sent_at: dict[socket.socket, float] = {}
    began = time.perf_counter()
    for _ in range(CLIENTS):
        connection = connect(path)
        selector.register(connection, selectors.EVENT_READ, connection)
        sent_at[connection] = time.perf_counter()
        connection.sendall(request)
    times: list[float] = []
    while len(times) < SUBMITS:
        for key, _ in selector.select():
            connection = key.data
            take_answer(connection)
            now = time.perf_counter()
            times.append(now - sent_at[connection])
            sent_at[connection] = now
            connection.sendall(request)
    rate = len(times) / (time.perf_counter() - began)
    times.sort()
    p50_ms, p99_ms = (1e3 * times[len(times) * percent // 100] for percent in (50, 99))
    print(f"durable submits over HTTP, {CLIENTS} clients: {rate:,.0f}/s, p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms "
          "(goal 2,500/s and 10 ms; prototypes 3,200 to 3,900/s, p99 4 to 6 ms)")  # fmt: skip


def in_a_batch(path: str) -> None:
    request = request_of("/jobs/batch", {"jobs": [SUBMISSION] * BATCH})
    times = []
    for _ in range(5):
        connection = connect(path)
        began = time.perf_counter()
        connection.sendall(request)
        take_answer(connection)
        times.append(1e3 * (time.perf_counter() - began))
        connection.close()
    print(f"{BATCH:,} submits in one batch over HTTP: {min(times):.0f} to {max(times):.0f} ms "
          "(goal 60 ms; prototypes 30 to 50 ms)")  # fmt: skip


if __name__ == "__main__":
    main()
