"""What the end of a container means for its launch: by what the runner wrote down, and what Docker still has of it."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from corral.model.launch import Again, LaunchPhase, LaunchReport
from corral.model.phase import Phase
from corral.runtimes.docker.records import Fault, RunnerState
from corral.runtimes.process.procfs import boot_id

_OF_ANOTHERS_DOING = (0, 128 + signal.SIGKILL, 128 + signal.SIGTERM)
"""So a program ends that was told to, by whomever. With these nothing is said of one whose runner was killed."""


@dataclass(frozen=True, slots=True)
class Found:
    """What Docker has of a container whose runner told nothing of its end: whether it ever began, and its own code."""

    began: bool
    exit_code: int | None


def own_exit_code(container: Mapping[str, Any], state: RunnerState) -> int | None:
    """With what a container surely failed by itself; None where it may have been ended.

    Before the host was started anew it may have been told to end, and by SIGKILL this server ends what is left.
    """
    here = state.main is not None and state.main.boot_id == boot_id()
    code = int(container["ExitCode"])
    return code if here and container["Status"] == "exited" and code not in _OF_ANOTHERS_DOING else None


def ended_report(told: LaunchReport, state: RunnerState, found: Found) -> LaunchReport:
    """The report of a launch whose container is over. `told` is that of its runner's process, EXITED or DEAD."""
    began = state.main is not None or (not state.ended and found.began)
    if told.phase is LaunchPhase.DEAD:
        return _without_supervisor(told, state, found.exit_code if not state.ended else state.exit_code)
    if told.ending is Phase.TIMED_OUT and not began and state.waits_for:
        return replace(told, reason=f"its time limit ended before its container began: {state.waits_for}")
    if told.ending in (Phase.SUCCEEDED, Phase.FAILED):
        match state.fault:
            case Fault.PASSING | Fault.NODE if not began:
                again = Again.ALWAYS if state.fault is Fault.NODE else Again.AS_ASKED
                return LaunchReport(told.launch_id, LaunchPhase.DECLARED_LOST, reason=state.reason, again=again)
            case Fault.NODE:
                return replace(told, ending=Phase.LOST, reason=state.reason)
            case Fault.LASTING:
                return replace(told, reason=told.reason or state.reason, again=Again.NEVER)
    return replace(told, reason=told.reason or state.reason or None)


def _without_supervisor(told: LaunchReport, state: RunnerState, code: int | None) -> LaunchReport:
    """Who was to record the end was killed. A success counts only if the runner wrote it down, and was not told to end.

    So what was stopped, and says of itself that all went well, is lost.
    """
    if code is None or state.stopped or state.fault is Fault.NODE:
        return replace(told, reason=told.reason or state.reason or None)
    ending = Phase.SUCCEEDED if code == 0 else Phase.FAILED
    return replace(told, phase=LaunchPhase.EXITED, exit_code=code, ending=ending, reason=state.reason or None)
