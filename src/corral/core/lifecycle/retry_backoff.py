"""The pause before a job is tried again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause before trying again: `base_s` after the first failure in a row, doubling up to `max_s`."""

    base_s: float = 1.0
    max_s: float = 300.0

    def after(self, failures: int) -> float:
        """Seconds to wait after the n-th failure in a row."""
        return min(self.max_s, self.base_s * 2.0 ** max(0, min(failures, 32) - 1))
