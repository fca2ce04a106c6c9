"""What the cluster remembers of work that is over: who used how much, how long what ran."""

from dataclasses import dataclass

RUNS_KEPT = 5
"""So many run times are kept of each user's jobs of one name."""


@dataclass(frozen=True, slots=True)
class Usage:
    """GPU-seconds used up to `at` (Unix seconds), older ones counting less: half as much after each half-life."""

    gpu_s: float = 0.0
    at: float = 0.0

    def decayed(self, at: float, half_life_s: float) -> "Usage":
        """The same usage as it counts at a later time."""
        if at <= self.at or not self.gpu_s:
            return Usage(self.gpu_s, max(at, self.at))
        return Usage(self.gpu_s * 0.5 ** ((at - self.at) / half_life_s), at)

    def plus(self, gpu_s: float, at: float, half_life_s: float) -> "Usage":
        """With `gpu_s` more, used just before `at`."""
        now = self.decayed(at, half_life_s)
        return Usage(now.gpu_s + gpu_s, now.at)
