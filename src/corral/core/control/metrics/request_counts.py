"""Counts answered requests with their status and duration. The event loop counts as it answers."""

from corral.histogram import SECONDS, Histogram

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

OTHER = "other"
"""The label for values that a client invented: an unknown path or an unknown method."""


class RequestCounts:
    """Written by one thread; any thread may read.

    Attributes:
        answers: the number of answers, by route, method and class of status ("2xx").
        seconds: from a request's head to the head of its answer, by route.
    """

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str, str], int] = {}
        self.seconds: dict[str, Histogram] = {}

    def add(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """Count an answer. `route` is the path pattern, such as "/api/v1/jobs/{job_id}"."""
        route = route or OTHER
        key = (route, method if method in METHODS else OTHER, f"{status // 100}xx")
        self.answers[key] = self.answers.get(key, 0) + 1
        times = self.seconds.get(route)
        if times is None:
            times = self.seconds[route] = Histogram(SECONDS)
        times.add(seconds)
