"""Past usage in fair shares: half of it counts after each half life."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecayedUsage:
    """GPU-seconds used up to `at` (Unix seconds), older ones counting less: half as much after each half-life."""

    gpu_s: float = 0.0
    at: float = 0.0

    def decayed(self, at: float, half_life_s: float) -> "DecayedUsage":
        """The usage as it counts at a later time."""
        if at <= self.at or not self.gpu_s:
            return DecayedUsage(self.gpu_s, max(at, self.at))
        return DecayedUsage(self.gpu_s * 0.5 ** ((at - self.at) / half_life_s), at)

    def plus(self, gpu_s: float, at: float, half_life_s: float) -> "DecayedUsage":
        """The usage with `gpu_s` more GPU-seconds, used just before `at`."""
        now = self.decayed(at, half_life_s)
        return DecayedUsage(now.gpu_s + gpu_s, now.at)
