"""Gets a job's image, with the credentials that its user has for the registry."""

import json
import pwd
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from docker import auth
from docker.errors import DockerException

from corral.core.model.units import format_memory
from corral.host.runtimes.docker.as_user import said_as
from corral.host.runtimes.docker.daemon_calls import Daemon, DaemonRefused, DaemonUnreachable
from corral.host.runtimes.docker.records import HostUser, RunnerOrders

TRY_S = 30.0
"""A registry that fails for this long, without refusing, fails the launch, which is tried again."""

_PAUSE_S = 5.0
_TELL_S = 5.0
_CREDENTIALS_BYTES = 1 << 20
_DONE = ("Pull complete", "Already exists")
_IN_TROUBLE = 500
_REFUSALS = (400, 401, 403, 404)
_WORDS_OF_REFUSAL = ("unauthorized", "denied", "not found", "manifest unknown", "no basic auth")
_MIB = 1 << 20

Tell = Callable[[str], None]


class ImageMissing(Exception):
    """The image is unavailable; the message says why, and the remedy. `passes` is set if it may be available later."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


def get_image(daemon: Daemon, orders: RunnerOrders, tell: Tell) -> None:
    """Make sure that the image is on this host, by its pull policy. `tell` is called with the progress. Raises
    ImageMissing.
    """
    image = str(orders.body["Image"])
    if orders.pull != "always" and daemon.has_image(image):
        return
    if orders.pull == "never":
        raise ImageMissing(f'image {image} is not on this host, and is not fetched because of "--pull never"')
    credentials = credentials_for(image, orders)
    until = time.monotonic() + TRY_S
    tell(f"image {image} is being pulled")
    while True:
        try:
            _pull(daemon, image, credentials, tell)
        except (DaemonRefused, DaemonUnreachable) as error:
            if _is_final(error):
                raise ImageMissing(_refused(image, str(error), known=credentials is not None)) from None
            if time.monotonic() >= until:
                raise ImageMissing(f"image {image} cannot be pulled: {error}", passes=True) from None
            tell(f"image {image} cannot be pulled yet: {error}")
            time.sleep(_PAUSE_S)
        else:
            return


def _pull(daemon: Daemon, image: str, credentials: dict[str, str] | None, tell: Tell) -> None:
    told_at = time.monotonic()
    layers: dict[str, Mapping[str, Any]] = {}
    for said in daemon.pull(image, credentials):
        if "error" in said:
            raise DaemonRefused(str(said["error"]), _IN_TROUBLE)
        if said.get("id") and said.get("status"):
            layers[str(said["id"])] = said
        if time.monotonic() - told_at >= _TELL_S:
            told_at = time.monotonic()
            tell(f"image {image} is being pulled: {progress(layers.values())}")


def progress(layers: Iterable[Mapping[str, Any]]) -> str:
    """Return the progress of a pull from the last message on each layer: "3 of 8 layers, 120 of 400M of those under
    way".
    """
    layers = [layer for layer in layers if not str(layer.get("status")).startswith("Pulling from")]
    done = sum(layer.get("status") in _DONE for layer in layers)
    details = [layer.get("progressDetail") or {} for layer in layers if layer.get("status") == "Downloading"]
    total = sum(int(one.get("total") or 0) for one in details)
    words = f"{done} of {len(layers)} layers"
    if not total:
        return words
    got = sum(int(one.get("current") or 0) for one in details)
    return f"{words}, {format_memory(got // _MIB)} of {format_memory(total // _MIB)} of those under way"


def _refused(image: str, said: str, *, known: bool) -> str:
    """Return the message for a registry's refusal. Most registries do not distinguish a missing image from a private
    one.
    """
    if known:
        words = f"image {image} cannot be pulled with your credentials for its registry: it does not exist, or is not"
        return f"{words} open to you; check its name and tag, and log in again: docker login ({said})"
    words = f"image {image} cannot be pulled without credentials: it does not exist, or is private"
    return f"{words}; check its name and tag, or log in on the node: docker login ({said})"


def _is_final(error: DaemonRefused | DaemonUnreachable) -> bool:
    """Return whether the registry refused. Docker mostly reports that only in words, as an error of its own."""
    if not isinstance(error, DaemonRefused):
        return False
    return error.status in _REFUSALS or any(word in str(error).lower() for word in _WORDS_OF_REFUSAL)


def credentials_for(image: str, orders: RunnerOrders) -> dict[str, str] | None:
    """Return the credentials in the job user's ~/.docker/config.json for the registry of an image, or None.

    A credential helper that the file names is not run: it would be a program of the user's, run by the server.
    """
    try:
        said = json.loads(_read_as(orders.owner) or b"{}")
        registry, _ = auth.resolve_repository_name(image)
        known = auth.AuthConfig({"auths": auth.parse_auth(dict(said.get("auths") or {}))})
        found = known.resolve_authconfig(registry)
    except (DockerException, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None
    return {str(key): str(value) for key, value in found.items() if value} if found else None


def home_of(uid: int) -> Path:
    """Return a user's home on this host. Raises KeyError if there is no such user."""
    return Path(pwd.getpwuid(uid).pw_dir)


def _read_as(who: HostUser) -> bytes | None:
    """Return the contents of the user's file, read with the user's rights."""
    try:
        path = home_of(who.uid) / ".docker" / "config.json"
    except KeyError:
        return None

    def read() -> bytes:
        with path.open("rb") as file:
            return file.read(_CREDENTIALS_BYTES)

    return said_as(who, read)
