"""What an image on this host says of itself."""

from corral.core.model.errors import BackendFailed
from corral.core.ports.images import ImageFacts
from corral.host.runtimes.docker.presence import socket_there

ANSWER_S = 2.0
"""Docker answers within this time: somebody waits for the submission."""


def local_image(name: str) -> ImageFacts | None:
    """Return the facts about an image; None if it is not on this host, or there is no Docker.

    Raises BackendFailed if Docker does not answer in time.
    """
    if not socket_there():
        return None
    from corral.core.preflight.image_config import image_facts
    from corral.host.runtimes.docker.daemon_calls import Daemon, DaemonRefused, DaemonUnreachable

    try:
        daemon = Daemon(ANSWER_S)
        try:
            config = daemon.config_of(name)
        finally:
            daemon.close()
    except (DaemonRefused, DaemonUnreachable) as error:
        raise BackendFailed(f"Docker does not tell of image {name:.200}: {error}") from error
    return None if config is None else image_facts(config)
