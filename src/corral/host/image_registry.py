"""Reads images in registries by HTTP: the manifest of an image, and its configuration.

Source: the OCI distribution specification 1.1, and version 2 of Docker's manifests. Only listed registries are called,
without credentials, and no redirect is followed.
"""

import hashlib
import json
import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from corral.core.model.errors import BackendFailed
from corral.core.model.printable import printable
from corral.core.ports.images import ImageFacts
from corral.core.preflight.image_config import image_facts
from corral.http_answer import Answer, NotHttp, request_bytes

WITHIN_S = 3.0
"""All requests for one image together take no longer: somebody waits for the submission."""
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes of a manifest or a configuration: registries commonly take manifests of 4 MiB."""

_INDICES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_NAME = re.compile(
    r"(?P<registry>[A-Za-z0-9.-]+(?::[0-9]{1,5})?)/(?P<repository>[a-z0-9][a-z0-9._/-]{0,254})"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_PIECE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ListedRegistries:
    """Implements `corral.core.ports.images.ImageRegistry`. `addresses` are as in the setting `image_registries`."""

    addresses: Sequence[str]

    def lists(self, image: str) -> bool:
        return self._place(image) is not None

    def facts(self, image: str) -> ImageFacts:
        place = self._place(image)
        if place is None:
            raise BackendFailed(f"image {image:.200} is in no registry that the site lists (image_registries)")
        address, repository, reference = place
        try:
            return image_facts(_configuration(_Session(address), repository, reference).get("config"))
        except (OSError, NotHttp, ValueError, RecursionError) as error:
            words = "it does not answer in time" if isinstance(error, TimeoutError) else printable(str(error))[:200]
            raise BackendFailed(f"{address} does not tell of image {printable(image):.200}: {words}") from error

    def _place(self, image: str) -> tuple[str, str, str] | None:
        """Return the registry's address, the repository and the tag or digest; None if no listed registry has it."""
        found = _NAME.fullmatch(image)
        if found is None:
            return None
        address = next((one for one in self.addresses if urlsplit(one).netloc == found["registry"]), None)
        if address is None or ".." in found["repository"]:
            return None
        return address, found["repository"], found["digest"] or found["tag"] or "latest"


def _configuration(session: "_Session", repository: str, reference: str) -> Mapping[str, Any]:
    """Return the configuration of an image. Raises ValueError for answers that make no sense."""
    manifest = session.json(f"/v2/{repository}/manifests/{reference}", (*_INDICES, *_MANIFESTS))
    if isinstance(manifest.get("manifests"), list):
        manifest = session.json(f"/v2/{repository}/manifests/{_for_linux(manifest['manifests'])}", _MANIFESTS)
    described = manifest.get("config")
    digest = described.get("digest") if isinstance(described, dict) else None
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        raise ValueError("its manifest names no configuration")
    return session.json(f"/v2/{repository}/blobs/{digest}", ("*/*",), digest)


def _for_linux(manifests: Sequence[object]) -> str:
    """Return the digest of the image for x86-64, else of the first for Linux: variables and labels seldom differ."""
    digests: dict[str, str] = {}
    for one in manifests[:100]:
        platform = one.get("platform") if isinstance(one, dict) else None
        if isinstance(one, dict) and isinstance(platform, dict) and platform.get("os") == "linux":
            digests.setdefault(str(platform.get("architecture")), str(one.get("digest")))
    digest = digests.get("amd64") or next(iter(digests.values()), "")
    if _DIGEST.fullmatch(digest) is None:
        raise ValueError("it has no image for Linux")
    return digest


class _Session:
    """Requests to one registry, which take WITHIN_S together. Each has a connection of its own."""

    def __init__(self, address: str) -> None:
        self._parts = urlsplit(address)
        self._until = time.monotonic() + WITHIN_S

    def json(self, path: str, accepted: Sequence[str], digest: str | None = None) -> dict[str, Any]:
        """Return the JSON object at a path, of the kinds `accepted`; with a digest, only if it is of these bytes."""
        body = self._get(path, {"Host": self._parts.netloc, "Accept": ", ".join(accepted), "Connection": "close"})
        if digest is not None and f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
            raise ValueError("its configuration has another digest than its manifest names")
        read = json.loads(body)
        if not isinstance(read, dict):
            raise ValueError("it answers with no JSON object")
        return read

    def _get(self, path: str, headers: Mapping[str, str]) -> bytes:
        answer, body, size = Answer(), [], 0
        with self._connected() as line:
            line.sendall(request_bytes("GET", path, headers, None))
            while not answer.complete:
                line.settimeout(self._left_s())
                answer.feed(line.recv(_PIECE_BYTES))
                if answer.begun and answer.status != 200:
                    raise ValueError(_refusal(answer.status))
                pieces = answer.taken()
                size += sum(map(len, pieces))
                if size > MOST_BYTES:
                    raise ValueError(f"it answers with more than {MOST_BYTES} bytes")
                body += pieces
        return b"".join(body)

    def _connected(self) -> socket.socket:
        host, secure = self._parts.hostname or "", self._parts.scheme == "https"
        line = socket.create_connection((host, self._parts.port or (443 if secure else 80)), self._left_s())
        if not secure:
            return line
        try:
            line.settimeout(self._left_s())
            return ssl.create_default_context().wrap_socket(line, server_hostname=host)
        except BaseException:
            line.close()
            raise

    def _left_s(self) -> float:
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s


def _refusal(status: int) -> str:
    if status in (401, 403):
        return f"it asks for credentials (HTTP {status}), and Corral shows none"
    if 300 <= status < 400:
        return f"it redirects to another address (HTTP {status}), which Corral does not follow"
    return "there is no such image" if status == 404 else f"it answers with HTTP {status}"
