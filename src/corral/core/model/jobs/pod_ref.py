"""A pod of Kubernetes that somebody made, and for which a job waits."""

from typing import NamedTuple


class PodRef(NamedTuple):
    """The identity of a pod: a later pod of the same name has another UID."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
