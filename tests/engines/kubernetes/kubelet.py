"""Plays the kubelet of one node: runs the commands of its pods as processes of this host, and tells how they end.

As a kubelet does, it refuses pods that need more GPUs than there are, ends a deleted pod with SIGTERM and, after its
grace, SIGKILL, deletes what has ended then, and serves logs, which a real API server passes on, until a deleted pod has
ended. Images are not looked
at, but those named missing/... are not there. What is run in a container besides is run on this host.
"""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from tests.engines.kubernetes.exec_server import serve_exec
from tests.engines.kubernetes.kubelet_port import KubeletPort
from tests.engines.kubernetes.manifests import node

GPUS = "nvidia.com/gpu"
_REFERENCE = re.compile(r"\$(\$|\(([-._a-zA-Z0-9]*)\)|)")

Json = dict[str, Any]


class Kubelet:
    """One node, from `start` to `close`, which ends its processes and tells nobody.

    Attributes:
        clock_ahead_s: how much the node's clock is ahead of the host's.
        refused: how many pods needed more GPUs than were free.
    """

    def __init__(self, cluster: Cluster, name: str, directory: Path, *, gpus: int = 8) -> None:
        self.name = name
        self.gpus = gpus
        self.clock_ahead_s = 0.0
        self.refused = 0
        self.directory = directory
        self._cluster = cluster
        self._lock = threading.Lock()
        self._pods: dict[str, _RunningPod] = {}
        self._closed = False
        directory.mkdir(parents=True, exist_ok=True)
        self._port = KubeletPort(directory, name, _handler(self))
        self._watch = ObjectWatch(cluster, PODS, Selection(None, fields=f"spec.nodeName={name}"))
        self._watch.cache(dict).subscribe(self._hear)

    def start(self, labels: dict[str, str] | None = None) -> None:
        """Make the node, and begin with its pods."""
        self._port.start()
        wanted = node(self.name, gpus=self.gpus, labels=labels)
        wanted["status"] |= self._port.in_status
        with suppress(CorralError):
            self._cluster.create(NODES, wanted)
        self._cluster.patch(NODES, self.name, {"status": wanted["status"]}, subresource="status")
        self._cluster.patch(NODES, self.name, {"spec": {"taints": None}})
        self._watch.start()

    def close(self) -> None:
        """End the node as a host does that loses its power."""
        with self._lock:
            self._closed = True
            running = list(self._pods.values())
        self._watch.stop()
        for pod in running:
            pod.kill()
        for pod in running:
            pod.join()
        self._port.close()

    def now(self) -> datetime:
        """The time by the node's clock."""
        return datetime.fromtimestamp(time.time() + self.clock_ahead_s, UTC)

    def log(self, namespace: str, name: str) -> "Log | None":
        """What the container of a pod has written; None where that is not, or no longer, known."""
        with self._lock:
            found = [pod for pod in self._pods.values() if (pod.namespace, pod.name) == (namespace, name)]
        return found[-1].log if found and not found[-1].is_removed else None

    def set_status(self, namespace: str, name: str, status: Json) -> None:
        """Tell the API server of a pod; again until it hears, unless the pod is gone or the node is."""
        while not self._closed:
            try:
                self._cluster.patch(PODS, name, {"status": status}, namespace, subresource="status")
                return
            except CorralError as error:
                if "not found" in str(error).lower():
                    return
                time.sleep(0.1)

    def delete(self, namespace: str, name: str, uid: str) -> None:
        """Nothing of the pod is left: its object may go."""
        while not self._closed:
            try:
                self._cluster.delete(PODS, name, namespace, uid=uid, grace_s=0)
                return
            except CorralError as error:
                if "Conflict" in type(error).__name__ or "Changed" in type(error).__name__:
                    return
                time.sleep(0.1)

    def in_use(self, but: str) -> int:
        """How many GPUs the pods that run here have, without one of them."""
        return sum(pod.gpus for uid, pod in self._pods.items() if uid != but and not pod.ended)

    def _hear(self, changes: list[Change[Json]]) -> None:
        for _, pod in changes:
            if pod is None:
                continue
            uid = pod["metadata"]["uid"]
            with self._lock:
                known = self._pods.get(uid)
                if known is None and not self._closed and pod.get("status", {}).get("phase") == "Pending":
                    known = self._pods[uid] = _RunningPod(self, pod)
                    known.start()
            if known is not None and "deletionTimestamp" in pod["metadata"]:
                known.delete(pod["metadata"].get("deletionGracePeriodSeconds", 0))


class Log:
    """What a container has written, each line with its time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lines: list[tuple[datetime, bytes]] = []
        self.whole = False

    def text(self, *, timestamps: bool, since: datetime | None) -> bytes:
        """Lines from a time on; each begins with its time if that is asked for."""
        with self.lock:
            chosen = [(at, line) for at, line in self.lines if since is None or at >= since]
        return b"".join((_stamp(at) if timestamps else b"") + line for at, line in chosen)

    def follow(self) -> Iterator[bytes]:
        """All lines with their times as they come, until the container has ended."""
        sent = 0
        while True:
            with self.lock:
                new, whole = self.lines[sent:], self.whole
            sent += len(new)
            yield b"".join(_stamp(at) + line for at, line in new)
            if whole:
                return
            time.sleep(0.01)


class _RunningPod:
    """One pod, on a thread of its own."""

    def __init__(self, kubelet: Kubelet, pod: Json) -> None:
        self._kubelet = kubelet
        self._pod = pod
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._deleted = threading.Event()
        self._kill_at: float | None = None
        self._killed = False
        self.ended = False
        self.log = Log()
        metadata, container = pod["metadata"], pod["spec"]["containers"][0]
        self.namespace, self.name, self._uid = metadata["namespace"], metadata["name"], metadata["uid"]
        self.gpus = int((container.get("resources", {}).get("limits") or {}).get(GPUS, 0))
        self._container = container

    @property
    def is_removed(self) -> bool:
        return self._deleted.is_set() and self.ended

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)

    def delete(self, grace_s: int) -> None:
        """The pod is deleted, or is now given less time."""
        kill_at = time.monotonic() + grace_s
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        self._deleted.set()

    def kill(self) -> None:
        self._killed = True
        self._deleted.set()
        self._kill_at = 0.0

    def _run(self) -> None:
        try:
            self._live()
        finally:
            self.ended = True
        if not self._killed:
            self._deleted.wait()
            if not self._killed:
                self._kubelet.delete(self.namespace, self.name, self._uid)

    def _live(self) -> None:
        if self.gpus + self._kubelet.in_use(self._uid) > self._kubelet.gpus:
            message = f"Allocate failed due to requested number of devices unavailable for {GPUS}, which is unexpected"
            self._kubelet.refused += 1
            self.ended = True
            self._tell("Failed", reason="UnexpectedAdmissionError", message=message)
            return
        if self._container["image"].startswith("missing/"):
            image = self._container["image"]
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
            self._tell("Pending", state={"waiting": waiting})
            self._deleted.wait()
            return
        began = self._kubelet.now()
        try:
            self._process = self._begin()
        except OSError as error:
            message = f'exec: "{self._container["command"][0]}": {error.strerror}'
            self._tell("Failed", state=self._terminated(128, began, reason="StartError", message=message))
            return
        self._tell("Running", state={"running": {"startedAt": _rfc3339(began)}})
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        code = self._wait(self._process)
        reader.join(60)
        # Its GPUs are free before anybody hears of it.
        self.ended = True
        self._tell("Succeeded" if code == 0 else "Failed", state=self._terminated(code, began))

    def _begin(self) -> subprocess.Popen[bytes]:
        given = {one["name"]: self._on_host(one.get("value", "")) for one in self._container.get("env") or ()}
        env: dict[str, str] = {"PATH": os.defpath, "HOSTNAME": self.name}
        for name, value in given.items():
            env[name] = expanded(value, env)
        return subprocess.Popen(
            [expanded(word, env) for word in self._container["command"]],
            env=env,
            cwd=self._container.get("workingDir", "/"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _on_host(self, value: str) -> str:
        """A variable's value with directories of the pod's own in place of where its container would see them."""
        empty = {one["name"] for one in self._pod["spec"].get("volumes") or () if "emptyDir" in one}
        for mount in self._container.get("volumeMounts") or ():
            if mount["name"] in empty and value.startswith(mount["mountPath"]):
                directory = self._kubelet.directory / self._uid / mount["name"]
                directory.mkdir(parents=True, exist_ok=True)
                value = value.replace(mount["mountPath"], str(directory), 1)
        return value

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                with self.log.lock:
                    self.log.lines.append((self._kubelet.now(), line))
        self.log.whole = True

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        told = False
        while process.poll() is None:
            if self._deleted.is_set() and not told:
                told = True
                process.send_signal(signal.SIGTERM)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                process.kill()
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            # A container ends with its first process.
            os.killpg(process.pid, signal.SIGKILL)
        return 128 - process.returncode if process.returncode < 0 else process.returncode

    def _terminated(self, code: int, began: datetime, *, reason: str | None = None, message: str = "") -> Json:
        why = reason or ("Completed" if code == 0 else "Error")
        ended = _rfc3339(self._kubelet.now())
        return {
            "terminated": {
                "exitCode": code,
                "reason": why,
                "message": message,
                "startedAt": _rfc3339(began),
                "finishedAt": ended,
            }
        }

    def _tell(self, phase: str, *, state: Json | None = None, **more: Any) -> None:
        if self._killed:
            return
        container = {
            "name": self._container["name"],
            "state": state,
            "image": self._container["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
        }
        statuses = {"containerStatuses": [container]} if state is not None else {}
        self._kubelet.set_status(self.namespace, self.name, {"phase": phase, **statuses, **more})


def expanded(text: str, env: Mapping[str, str]) -> str:
    """The text with variables in place of $(NAME), as a kubelet passes it on; $$ is one $."""

    def instead(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return env.get(match[2], match[0]) if match[2] is not None else match[0]

    return _REFERENCE.sub(instead, text)


def _handler(kubelet: Kubelet) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            words, query = parts.path.strip("/").split("/"), parse_qs(parts.query)
            if words[0] == "exec":
                self.close_connection = True
                serve_exec(self, query["command"])
                return
            log = kubelet.log(words[1], words[2]) if words[0] == "containerLogs" and len(words) == 4 else None
            if log is None:
                self.send_error(404)
                return
            if query.get("follow") == ["true"]:
                self.send_response(200)
                self.end_headers()
                for piece in log.follow():
                    self.wfile.write(piece)
                return
            since = query.get("sinceSeconds")
            after = None if since is None else datetime.fromtimestamp(kubelet.now().timestamp() - int(since[0]), UTC)
            body = log.text(timestamps=query.get("timestamps") == ["true"], since=after)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Tests have no use for it."""

    return Handler


def _stamp(at: datetime) -> bytes:
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond * 1000:09}Z ".encode()


def _rfc3339(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
