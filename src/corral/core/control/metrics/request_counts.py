"""How many requests were answered, how, and how soon. Counted by the event loop as it answers."""

from corral.histogram import SECONDS, Histogram

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

OTHER = "other"
"""Instead of what a client made up: a path that no route has, a method that there is not."""


class RequestCounts:
    """For one thread; any thread may read.

    Attributes:
        answers: how many, by route, method and class of status ("2xx").
        seconds: from a request's head to the head of its answer, by route.
    """

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str, str], int] = {}
        self.seconds: dict[str, Histogram] = {}

    def add(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """Count an answer. `route` is the path as the routes name it, such as "/api/v1/jobs/{job_id}"."""
        route = route or OTHER
        key = (route, method if method in METHODS else OTHER, f"{status // 100}xx")
        self.answers[key] = self.answers.get(key, 0) + 1
        times = self.seconds.get(route)
        if times is None:
            times = self.seconds[route] = Histogram(SECONDS)
        times.add(seconds)
