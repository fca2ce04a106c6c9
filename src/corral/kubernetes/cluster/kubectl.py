"""What is left to kubectl, in the words that a user types."""

from corral.model.errors import Refused


def refused_command(namespace: str, pod: str) -> Refused:
    """That a command is not run inside a pod."""
    return Refused(
        f"Corral runs no command inside a pod; use kubectl for that: kubectl exec -n {namespace} {pod} -- COMMAND"
    )
