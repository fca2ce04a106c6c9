"""The name of the container of a launch."""


def container_name(tag: str, launch_id: str) -> str:
    """Return the unique name of a launch's container on its host."""
    return f"corral-{tag}-{launch_id}"
