"""Advice to use kubectl for tasks that Corral does not do."""

from corral.core.model.errors import Refused


def refused_command(namespace: str, pod: str) -> Refused:
    """Return the error that says that Corral runs no command inside a pod of others."""
    return Refused(
        "Corral runs no command inside a pod that it has only bound to a node; use kubectl for that: "
        f"kubectl exec -n {namespace} {pod} -- COMMAND"
    )
