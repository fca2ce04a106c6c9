"""The reference of a job to its Kubernetes pod, which others made."""

from typing import NamedTuple


class PodRef(NamedTuple):
    """The identity of a pod: a later pod of the same name has another UID."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
