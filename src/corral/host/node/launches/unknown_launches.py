"""Ends launches that run here without being in the ledger. Other work waits for their end."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

from corral.core.model.errors import CorralError
from corral.core.model.runs.launch import LaunchPhase
from corral.core.ports.runtime import Runtime

log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 0.1
_ASK_AGAIN_S = 5.0

_AT_WORK = (LaunchPhase.CLAIMED, LaunchPhase.RUNNING)

Step = Callable[[], None]


class UnknownLaunches:
    """Ends launches on a thread that lives as long as there are any.

    The devices of an unknown launch are not known, so all work that needs devices waits for the end of all these
    launches. `clean_up` runs a step at a quiet time.
    """

    def __init__(self, clean_up: Callable[[Step], None]) -> None:
        self._clean_up = clean_up
        self._lock = threading.Lock()
        self._ending: dict[str, tuple[Runtime, float]] = {}
        self._waiting: list[Step] = []
        self._closing = threading.Event()

    def end(self, unknown: Mapping[str, Runtime]) -> tuple[str, ...]:
        """End these launches and remove their records. Return the ids of those that run."""
        at_work = []
        with self._lock:
            idle = not self._ending
            for launch_id, runtime in unknown.items():
                if _runs(launch_id, runtime):
                    log.warning("launch %s runs but is not in the ledger: ending it", launch_id)
                    at_work.append(launch_id)
                    self._ending.setdefault(launch_id, (runtime, 0.0))
                else:
                    self._clean_up(partial(runtime.forget, launch_id))
            if idle and self._ending:
                threading.Thread(target=self._run, name="unknown-launches", daemon=True).start()
        return tuple(at_work)

    def then(self, step: Step) -> None:
        """Run a step once no unknown launch is left; at once if there is none."""
        with self._lock:
            if self._ending:
                self._waiting.append(step)
                return
        step()

    def close(self) -> None:
        """End the thread; waiting steps are not run."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_AGAIN_S):
            over = []
            for launch_id, (runtime, asked_at) in list(self._ending.items()):
                if not _runs(launch_id, runtime):
                    over.append(launch_id)
                elif time.monotonic() - asked_at > _ASK_AGAIN_S:
                    _stop(launch_id, runtime)
                    self._ending[launch_id] = runtime, time.monotonic()
            with self._lock:
                for launch_id in over:
                    runtime, _ = self._ending.pop(launch_id)
                    self._clean_up(partial(runtime.forget, launch_id))
                # A launch that is added after this check starts a new thread, so this thread must end.
                if self._ending:
                    continue
                steps, self._waiting = self._waiting, []
            for step in steps:
                step()
            return


def _runs(launch_id: str, runtime: Runtime) -> bool:
    """Return whether a launch runs or may run. An unclaimed launch is declared lost, so that it never runs."""
    try:
        phase = runtime.report(launch_id).phase
        return phase in _AT_WORK or (phase is LaunchPhase.UNKNOWN and not runtime.declare_lost(launch_id))
    except CorralError as error:
        log.error("launch %s cannot be looked at: %s", launch_id, error)
        return True


def _stop(launch_id: str, runtime: Runtime) -> None:
    try:
        runtime.stop(launch_id)
    except CorralError as error:
        log.error("%s", error)
