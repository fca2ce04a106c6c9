"""What is left to kubectl, in the words that a user types."""

from corral.model.errors import Refused


def refused_command(namespace: str, pod: str) -> Refused:
    """That a command is not run inside a pod of others."""
    return Refused(
        "Corral runs no command inside a pod that it has only bound to a node; use kubectl for that: "
        f"kubectl exec -n {namespace} {pod} -- COMMAND"
    )
