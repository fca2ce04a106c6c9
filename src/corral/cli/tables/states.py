"""The states of jobs, in users' words."""

from __future__ import annotations

from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.phase import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_ACTIVE = tuple(phase for phase in Phase if not phase.terminal)
_ENDED = tuple(phase for phase in Phase if phase.terminal)

STATES: dict[str, tuple[Phase, ...]] = {
    **{phase.value.lower(): (phase,) for phase in Phase},
    "waiting": (Phase.PENDING,), "queued": (Phase.PENDING,), "pd": (Phase.PENDING,),
    "r": (Phase.RUNNING,), "cg": (Phase.STOPPING,), "completing": (Phase.STOPPING,),
    "completed": (Phase.SUCCEEDED,), "done": (Phase.SUCCEEDED,), "success": (Phase.SUCCEEDED,),
    "cd": (Phase.SUCCEEDED,),
    "failure": (Phase.FAILED,), "f": (Phase.FAILED,),
    "canceled": (Phase.CANCELLED,), "ca": (Phase.CANCELLED,),
    "timeout": (Phase.TIMED_OUT,), "to": (Phase.TIMED_OUT,), "node_fail": (Phase.LOST,), "nf": (Phase.LOST,),
    "active": _ACTIVE, "live": _ACTIVE, "ended": _ENDED, "finished": _ENDED,
}  # fmt: skip
"""The phases for each word: the phases themselves, synonyms, and Slurm's words."""


def phases_of(states: Sequence[str]) -> tuple[Phase, ...]:
    """The phases in texts such as "failed,lost", in upper or lower case. Raises Refused."""
    words = [word.strip().lower().replace("-", "_").replace(" ", "_") for text in states for word in text.split(",")]
    for word in words:
        if word not in STATES:
            hint = nearest(word, STATES)
            if hint.startswith("known"):
                hint = nearest("", [*map(str.lower, Phase), "waiting", "active", "ended"])
            raise Refused(f"--state: {word!r:.40} is not a state; {hint}", field="--state")
    return tuple(dict.fromkeys(phase for word in words for phase in STATES[word]))
