"""Warnings for users about attempts that were given up with their nodes and may still run there."""

import threading


class LeftBehind:
    """The warnings, in memory until the node returns and the attempts are ended there. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warnings: dict[str, dict[str, str]] = {}
        """By node, then by job."""

    def add(self, job_id: str, node: str, warning: str) -> None:
        """Store a warning that an attempt of this job was given up on this node; a sentence without its full stop."""
        with self._lock:
            self._warnings.setdefault(node, {})[job_id] = warning

    def ended_on(self, node: str) -> None:
        """Delete the warnings of a node that has returned: its given-up attempts are ended."""
        with self._lock:
            self._warnings.pop(node, None)

    def warning(self, job_id: str) -> str | None:
        """Return the warnings about a job's attempts that may still run, None if there are none."""
        with self._lock:
            found = [jobs[job_id] for _, jobs in sorted(self._warnings.items()) if job_id in jobs]
        return "; ".join(found) or None
