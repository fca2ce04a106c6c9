"""Programs with the names and options of real engines and of Ray. They speak to other members and compute nothing.

They know the options of several nodes alone, and end at any other, as the real ones do.
"""

import argparse
import os
import socket
import sys
import threading
import time
from pathlib import Path

from corral.features.tuner.engines import stand_in_server

_SERVED = ("--served-model-name", "--host", "--port", "--tensor-parallel-size")


def write_engines(directory: Path) -> str:
    """Write `vllm`, `ray`, and a `python3` that has SGLang. The PATH with them."""
    for name in ("vllm", "ray", "python3"):
        program = directory / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        program.chmod(0o755)
    return f"{directory}:/usr/bin:/bin"


def vllm(words: list[str]) -> None:
    parser = _parser(*_SERVED, "--master-addr", "--master-port", "--distributed-executor-backend")
    parser.add_argument("serve", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--headless", action="store_true")
    given = parser.parse_args(words)
    if given.distributed_executor_backend == "ray":
        if given.nnodes > 1:
            parser.error("nnodes > 1 is for another backend")
        _await_gpus(os.environ["RAY_ADDRESS"], int(given.tensor_parallel_size))
    elif given.headless != (given.node_rank > 0):
        parser.error("all members but the first are headless")
    _serve(given, f"{given.master_addr}:{given.master_port}")


def python3(words: list[str]) -> None:
    if words[:2] != ["-m", "sglang.launch_server"]:
        sys.exit(f"this Python has SGLang alone, not {words[:2]}")
    parser = _parser(*_SERVED, "--model-path", "--dist-init-addr")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    given = parser.parse_args(words[2:])
    _serve(given, given.dist_init_addr)


def ray(words: list[str]) -> None:
    parser = _parser("--address", "--port", "--num-gpus")
    parser.add_argument("verb", choices=["start", "health-check"])
    parser.add_argument("--head", action="store_true")
    parser.add_argument("--disable-usage-stats", action="store_true")
    parser.add_argument("--block", action="store_true")
    given = parser.parse_args(words)
    if given.head:
        if os.fork() == 0:
            _RayHead(int(given.num_gpus)).listen(int(given.port))
        return
    if given.verb == "health-check":
        sys.exit(0 if _asked(given.address, "gpus") else 1)
    print(f"a worker with {given.num_gpus} GPUs joins {given.address}", flush=True)
    with _connected(given.address) as line:
        line.sendall(f"join {given.num_gpus}\n".encode())
        while line.recv(100):
            pass
    sys.exit("the head has gone")


class _RayHead:
    """Knows the GPUs of the workers that are connected to it."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus

    def listen(self, port: int) -> None:
        with socket.create_server(("", port)) as server:
            while True:
                threading.Thread(target=self._answer, args=(server.accept()[0],), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with line:
            verb, _, gpus = line.recv(100).decode().strip().partition(" ")
            if verb == "gpus":
                line.sendall(str(self._gpus).encode())
                return
            self._gpus += int(gpus)
            while line.recv(100):
                pass
            self._gpus -= int(gpus)


def _await_gpus(address: str, wanted: int) -> None:
    """Wait until the cluster has so many GPUs. From then on the process ends with any of them."""

    def enough() -> bool:
        return int(_asked(address, "gpus") or 0) >= wanted

    def watch() -> None:
        while enough():
            time.sleep(0.1)
        print("a worker has gone", file=sys.stderr, flush=True)
        os._exit(1)

    while not enough():
        time.sleep(0.1)
    print(f"the cluster has {wanted} GPUs", flush=True)
    threading.Thread(target=watch, daemon=True).start()


def _asked(address: str, question: str) -> str:
    """The head's answer, "" if it does not answer."""
    try:
        with _connected(address) as line:
            line.sendall(f"{question}\n".encode())
            return line.recv(100).decode()
    except OSError:
        return ""


def _connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def _parser(*valued: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in valued:
        parser.add_argument(name)
    return parser


def _serve(given: argparse.Namespace, meeting: str) -> None:
    words = ["--model", given.served_model_name, "--host", given.host, "--port", given.port]
    words += ["--tensor-parallel-size", given.tensor_parallel_size or "1"]
    members = ["--nnodes", str(given.nnodes), "--node-rank", str(given.node_rank), "--dist-init-addr", meeting]
    stand_in_server.main([*words, *members])


if __name__ == "__main__":
    {"vllm": vllm, "ray": ray, "python3": python3}[sys.argv[1]](sys.argv[2:])
