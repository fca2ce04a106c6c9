"""Attempts that were given up with their nodes and may still run there, for the users of their jobs."""

import threading


class LeftBehind:
    """Kept in memory until the node returns, where they are ended. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warnings: dict[str, dict[str, str]] = {}
        """By node, then by job."""

    def add(self, job_id: str, node: str, warning: str) -> None:
        """An attempt of this job was given up on this node; `warning` says so, without its full stop."""
        with self._lock:
            self._warnings.setdefault(node, {})[job_id] = warning

    def ended_on(self, node: str) -> None:
        """The node has returned, and whatever had been given up there is ended."""
        with self._lock:
            self._warnings.pop(node, None)

    def warning(self, job_id: str) -> str | None:
        """What may still run of a job, None where nothing may."""
        with self._lock:
            found = [jobs[job_id] for _, jobs in sorted(self._warnings.items()) if job_id in jobs]
        return "; ".join(found) or None
