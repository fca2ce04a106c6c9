"""A stand-in for `nvidia-cuda-mps-control`: same options, commands, files and words, without a GPU.

MPS_FAKE names how it misbehaves: no-start, dies, hangs, ignores-quit, no-defaults. `client_fault` and `crash` are
commands of the fake alone: a client that takes the server down, and a control daemon that vanishes. It ends by itself
after a minute.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path

PIPES = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
LOGS = Path(os.environ["CUDA_MPS_LOG_DIRECTORY"])
SOCKET = str(PIPES / "control")
PID_FILE = PIPES / "nvidia-cuda-mps-control.pid"
FAKE = os.environ.get("MPS_FAKE", "")
LIFETIME_S = 60


def log(line: str) -> None:
    with (LOGS / "control.log").open("a") as file:
        file.write(f"[2026-01-01 00:00:00.000 Control {os.getpid():5}] {line}\n")


def start_server() -> int:
    pid = os.fork()
    if pid == 0:
        os.closerange(3, 64)
        time.sleep(LIFETIME_S)
        os._exit(0)
    return pid


class Daemon:
    def __init__(self) -> None:
        self.servers: dict[int, str] = {}
        self.defaults = {"active_thread_percentage": "100.0", "device_pinned_mem_limit": "None"}

    def answer(self, command: str) -> str:
        words = command.split()
        match words[0] if words else "":
            case "get_server_list":
                return "".join(f"{pid}\n" for pid in self.servers)
            case "get_server_status":
                return f"{self.servers.get(int(words[1]), 'Server not found')}\n"
            case "start_server":
                self.servers[start_server()] = "ACTIVE"
                return ""
            case "set_default_active_thread_percentage" if FAKE != "no-defaults":
                self.defaults["active_thread_percentage"] = f"{float(words[1])}"
                return f"{float(words[1])}\n"
            case "set_default_device_pinned_mem_limit":
                self.defaults["device_pinned_mem_limit"] = words[2]
                return ""
            case "get_default_active_thread_percentage" | "get_default_device_pinned_mem_limit":
                return f"{self.defaults[words[0].removeprefix('get_default_')]}\n"
            case "client_fault":
                self.servers = dict.fromkeys(self.servers, "FAULT")
                return ""
            case "crash":
                self.end_servers()
                os._exit(1)
            case "quit":
                if FAKE == "ignores-quit":
                    return ""
                self.end_servers()
                PID_FILE.unlink()
                os._exit(0)
        return "Unknown command\n"

    def end_servers(self) -> None:
        for pid in self.servers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def serve(self, listener: socket.socket) -> None:
        deadline = time.monotonic() + LIFETIME_S
        listener.settimeout(1)
        while time.monotonic() < deadline:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                if FAKE == "hangs":
                    time.sleep(LIFETIME_S)
                connection.sendall(self.answer(connection.recv(4096).decode()).encode())


def daemonise() -> int:
    if "-multiuser-server" in sys.argv and FAKE == "no-multi-user":
        print("Unknown option: -multiuser-server", file=sys.stderr)
        return 1
    if FAKE == "no-start":
        log("Failed to start : operation not permitted")
        return 1
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(SOCKET)
        print("An instance of this daemon is already running", file=sys.stderr)
        return 1
    except OSError:
        Path(SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(SOCKET)
    listener.listen(8)
    pid = os.fork()
    if pid:
        PID_FILE.write_text(f"{pid}\n")
        return 0
    os.setsid()
    log("Start")
    if FAKE == "dies":
        log("Failed to initialize : no CUDA-capable device is detected")
        os._exit(1)
    Daemon().serve(listener)
    return 0


def say() -> int:
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(SOCKET)
            client.sendall(sys.stdin.read().encode())
            sys.stdout.write(client.makefile().read())
    except OSError:
        print("Cannot find MPS control daemon process", file=sys.stderr)
        return 1
    return 0


sys.exit(daemonise() if "-d" in sys.argv else say())
