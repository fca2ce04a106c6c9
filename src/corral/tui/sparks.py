"""The utilization of each device in the last minutes, in steps of some seconds."""

from collections.abc import Iterable

STEP_S = 15
MOST_STEPS = 40
"""The number of steps in ten minutes, which the widest spark line shows."""


class Sparks:
    """Means of utilization, 0 to 1, of each device and step. A step in which nothing was read is a gap."""

    def __init__(self) -> None:
        self._steps: dict[str, dict[int, tuple[float, int]]] = {}
        self._past: set[str] = set()

    def add(self, uuid: str, at: float, utilization_pct: float) -> None:
        """A reading of a device at a moment (Unix seconds)."""
        steps, step = self._steps.setdefault(uuid, {}), int(at // STEP_S)
        total, count = steps.get(step, (0.0, 0))
        steps[step] = (total + utilization_pct / 100, count + 1)
        if len(steps) > MOST_STEPS + 1:
            del steps[min(steps)]

    def add_past(self, uuid: str, points: Iterable[tuple[float, float]]) -> None:
        """Add readings from before the live ones, as moments and percent. They count only for steps without a live
        reading.
        """
        self._past.add(uuid)
        heard = set(self._steps.get(uuid, {}))
        for at, utilization_pct in points:
            if int(at // STEP_S) not in heard:
                self.add(uuid, at, utilization_pct)

    def lacks_past(self, uuid: str) -> bool:
        """Return whether its history was not requested yet."""
        return uuid not in self._past

    def asked(self, uuid: str) -> None:
        """Its history is on its way."""
        self._past.add(uuid)

    def forget_past(self) -> None:
        """Mark the histories as not requested: the history has readings that were missed."""
        self._past.clear()

    def last(self, uuid: str, steps: int, now: float) -> list[float | None]:
        """Return the mean of each of the last `steps` steps up to now, the oldest first; None is a gap."""
        known, newest = self._steps.get(uuid, {}), int(now // STEP_S)
        means = (known.get(step) for step in range(newest - steps + 1, newest + 1))
        return [None if mean is None else mean[0] / mean[1] for mean in means]
