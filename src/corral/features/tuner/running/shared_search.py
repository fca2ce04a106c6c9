"""The search of a task, shared by the threads of its experiments."""

import threading

from corral.features.tuner.search.search import Search
from corral.features.tuner.search.trial import Candidate, Finished, Later, LoadLevel, Trial


class SharedSearch:
    """A `Search` with a lock, used by one thread at a time."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._lock = threading.Lock()

    def ask(self) -> Candidate | Later | Finished:
        with self._lock:
            return self._search.ask()

    def most_trials(self) -> int:
        with self._lock:
            return self._search.most_trials

    def next_level(self, number: int) -> LoadLevel | None:
        with self._lock:
            return self._search.next_level(number)

    def tell(self, trial: Trial) -> None:
        with self._lock:
            self._search.tell(trial)

    def scores(self, number: int) -> tuple[float, ...] | None:
        with self._lock:
            return self._search.scores(number)

    def why_no_score(self, number: int) -> str | None:
        with self._lock:
            return self._search.why_no_score(number)
