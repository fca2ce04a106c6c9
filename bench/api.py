"""Submits over HTTP on a server's Unix socket: one by one from 8 clients, 1,000 in a batch, and an array of 1,000.

`python -m bench.api` prints each figure beside its goal, and the processor time that the server took for it, which says
more on a busy machine. A submission carries an environment of 20 variables. The clients are connections of one process,
so that on two cores one is the server's.
"""

import json
import selectors
import socket
import time

from bench.server import RunningServer, throw_away

CLIENTS = 8
SUBMITS = 8_000
BATCH = 1_000
REPEATED = 5
SUBMISSION = {
    "command": ["python3", "train.py", "--seed=1"],
    "workdir": "/",
    "held": True,
    "env": {f"VARIABLE_{i}": f"/some/value/of/it/number/{i}" for i in range(20)},
}


def main() -> None:
    with throw_away() as server:
        one_by_one(server)
        goal = "goal 60 ms; prototypes 30 to 50 ms"
        at_once(server, f"{BATCH:,} submits in one batch", "/jobs/batch", {"jobs": [SUBMISSION] * BATCH}, goal)
        at_once(server, f"an array of {BATCH:,}", "/jobs", SUBMISSION | {"array": {"indices": [*range(BATCH)]}}, goal)


def request_of(path: str, body: object) -> bytes:
    raw = json.dumps(body, separators=(",", ":")).encode()
    head = f"POST /api/v1{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


def connect(server: RunningServer) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(server.socket))
    return connection


def take_answer(connection: socket.socket) -> None:
    answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 201"), answer
    # The server sends head and body apart; the small JSON object of the body ends with its only closing brace.
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)


def one_by_one(server: RunningServer) -> None:
    request = request_of("/jobs", SUBMISSION)
    selector = selectors.DefaultSelector()
    sent_at: dict[socket.socket, float] = {}
    began, cpu_s = time.perf_counter(), server.cpu_s()
    for _ in range(CLIENTS):
        connection = connect(server)
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
    cpu_us = (server.cpu_s() - cpu_s) * 1e6 / len(times)
    times.sort()
    p50_ms, p99_ms = (1e3 * times[len(times) * percent // 100] for percent in (50, 99))
    print(f"durable submits over HTTP, {CLIENTS} clients: {rate:,.0f}/s, p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms, "
          f"{cpu_us:.0f} us of CPU each (goal 2,500/s, 10 ms; prototypes 3,200 to 3,900/s, 4 to 6 ms)")  # fmt: skip


def at_once(server: RunningServer, what: str, path: str, body: object, goal: str) -> None:
    """One request of many jobs, again and again."""
    request = request_of(path, body)
    times, cpu_s = [], server.cpu_s()
    for _ in range(REPEATED):
        connection = connect(server)
        began = time.perf_counter()
        connection.sendall(request)
        take_answer(connection)
        times.append(1e3 * (time.perf_counter() - began))
        connection.close()
    cpu_ms = (server.cpu_s() - cpu_s) * 1e3 / REPEATED
    print(f"{what} over HTTP: {min(times):.0f} to {max(times):.0f} ms, {cpu_ms:.0f} ms of CPU ({goal})")


if __name__ == "__main__":
    main()
