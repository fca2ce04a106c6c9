"""Has a process of its own run a replay: with little priority, bounded in time and memory, and ended when asked to."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.units import format_duration
from corral.features.replays.answers import ReplayResult
from corral.features.replays.replay_order import ReplayOrder, ReplayStopped
from corral.wire import from_answer, to_plain

TIME_LIMIT_S = 300.0
MOST_BYTES = 16 * 1024 * 1024
"""The longest line that a process may say: more than any result is."""

_COMMAND = (sys.executable, "-I", "-m", "corral.features.replays.replay_worker")
_NICENESS = 15
_LOOK_S = 0.5
_CHUNK = 65_536


class ReplayProcess:
    """Implements `corral.features.replays.replay_order.ReplayRunner` with one process after the other."""

    def __init__(
        self, ledger_url: str, *, time_limit_s: float = TIME_LIMIT_S, command: tuple[str, ...] = _COMMAND
    ) -> None:
        self._ledger_url = ledger_url
        self._time_limit_s = time_limit_s
        self._command = command
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(self, order: ReplayOrder, progress: Callable[[int, int], None], wanted: Callable[[], bool]) -> ReplayResult:
        """As in `corral.features.replays.replay_order.ReplayRunner`."""
        child = self._started()
        try:
            self._tell(child, order)
            for said in self._lines(child, wanted):
                if "result" in said:
                    return from_answer(ReplayResult, said["result"])
                if "refused" in said:
                    raise Refused(said["refused"])
                progress(*said["progress"])
            if self._stopped:
                raise ReplayStopped("the server was stopped")
            raise BackendFailed(f"the process of the replay has ended by itself ({_end_of(child)}); try again")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BackendFailed(f"the process of the replay has failed ({type(error).__name__}); try again") from error
        finally:
            self._end(child)

    def stop(self) -> None:
        """As in `corral.features.replays.replay_order.ReplayRunner`."""
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill()

    def _started(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._stopped:
                raise ReplayStopped("the server was stopped")
            child = self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # No variables of the server. One thread: more would take address space, and CPUs from jobs.
                env={"PATH": os.defpath, "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, child.pid, _NICENESS)
        return child

    def _tell(self, child: "subprocess.Popen[bytes]", order: ReplayOrder) -> None:
        asked = {"ledger_url": self._ledger_url, "order": to_plain(order, compact=True)}
        stdin = _pipe(child.stdin)
        # A process that ended before it read shows why by its exit. The pipe stays open: the process ends when it
        # closes.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(asked).encode() + b"\n")
            stdin.flush()

    def _lines(self, child: "subprocess.Popen[bytes]", wanted: Callable[[], bool]) -> Iterator[Mapping[str, Any]]:
        """Yield its output line by line until its end. Raises ReplayStopped, and BackendFailed after the time limit."""
        ends_at = time.monotonic() + self._time_limit_s
        stdout, begun = _pipe(child.stdout), b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while True:
                ready = selector.select(_LOOK_S)
                if not wanted():
                    raise ReplayStopped("nobody waits for it any more")
                if time.monotonic() > ends_at:
                    limit = format_duration(self._time_limit_s)
                    raise BackendFailed(f"it took longer than {limit}; choose a shorter time or fewer policies")
                if not ready:
                    continue
                chunk = os.read(stdout.fileno(), _CHUNK)
                if not chunk:
                    return
                *whole, begun = (begun + chunk).split(b"\n")
                if len(begun) > MOST_BYTES:
                    raise ValueError("a line is too long")
                yield from map(json.loads, whole)

    def _end(self, child: "subprocess.Popen[bytes]") -> None:
        with self._lock:
            self._child = None
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        child.wait()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _end_of(child: "subprocess.Popen[bytes]") -> str:
    code = child.wait()
    return f"signal {-code}" if code < 0 else f"exit code {code}"
