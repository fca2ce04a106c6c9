"""Images are read in a real registry; one that misbehaves costs a bounded time and a bounded memory, and is told."""

import hashlib
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from corral.core.model.errors import BackendFailed
from corral.host import image_registry
from corral.host.image_registry import MOST_BYTES, ListedRegistries

WITHIN_S = 60.0
_SITE = """version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {directory}/images}}}}
http: {{addr: "{address}"}}
"""
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
CONFIG = {"config": {"Env": ["CUDA_VERSION=12.4.1"], "Entrypoint": ["vllm"]}, "architecture": "amd64", "os": "linux"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real registry on this machine, which knows nobody."""
    program, place = shutil.which("docker-registry"), tmp_path_factory.mktemp("registry")
    if program is None:
        pytest.skip("no docker-registry")
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
    (place / "site.yml").write_text(_SITE.format(directory=place, address=address))
    log = (place / "log").open("wb")
    with log, subprocess.Popen([program, "serve", str(place / "site.yml")], stdout=log, stderr=log) as process:
        try:
            until = time.monotonic() + WITHIN_S
            while not _answers(address):
                assert process.poll() is None, (place / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.05)
            yield address
        finally:
            process.kill()


def _answers(address: str) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(f"http://{address}/v2/").close()
        return True
    return False


def put(url: str, body: bytes, kind: str) -> str:
    asked = urllib.request.Request(url, body, {"Content-Type": kind}, method="PUT")
    urllib.request.urlopen(asked).close()
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def push(address: str, repository: str, tag: str, config: Any) -> str:
    """Push an image without layers, and return the digest of its manifest."""
    body = json.dumps(config).encode()
    begun = urllib.request.urlopen(
        urllib.request.Request(f"http://{address}/v2/{repository}/blobs/uploads/", b"", method="POST")
    )
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    place = begun.headers["Location"]
    put(f"{place}{'&' if '?' in place else '?'}digest={digest}", body, "application/octet-stream")
    described = {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(body), "digest": digest}
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": described, "layers": []}
    return put(f"http://{address}/v2/{repository}/manifests/{tag}", json.dumps(manifest).encode(), _MANIFEST)


def test_an_image_says_what_it_needs_by_tag_by_digest_and_through_a_list_of_platforms(registry: str) -> None:
    digest = push(registry, "team/train", "1", CONFIG)
    listed = ListedRegistries([f"http://{registry}"])
    for image in (f"{registry}/team/train:1", f"{registry}/team/train@{digest}"):
        facts = listed.facts(image)
        assert (facts.variables, facts.entrypoint) == ({"CUDA_VERSION": "12.4.1"}, ("vllm",))
    other = push(registry, "team/train", "arm", {"config": {}})
    manifests = [
        {"mediaType": _MANIFEST, "size": 1, "digest": one, "platform": {"os": "linux", "architecture": machine}}
        for one, machine in ((other, "arm64"), (digest, "amd64"))
    ]
    body = json.dumps({"schemaVersion": 2, "mediaType": _LIST, "manifests": manifests}).encode()
    put(f"http://{registry}/v2/team/train/manifests/both", body, _LIST)
    assert listed.facts(f"{registry}/team/train:both").variables == {"CUDA_VERSION": "12.4.1"}
    with pytest.raises(BackendFailed, match="there is no such image"):
        listed.facts(f"{registry}/team/train:2")


def test_only_images_with_the_host_of_a_listed_registry_are_looked_up() -> None:
    listed = ListedRegistries(["https://images.example.com", "http://127.0.0.1:5000"])
    assert listed.lists("images.example.com/team/train:1")
    assert listed.lists("127.0.0.1:5000/train")
    for image in ("train:1", "team/train", "other.example.com/train", "images.example.com:444/train", "a b/c"):
        assert not listed.lists(image)
    assert not listed.lists("images.example.com/../../v2/secret")


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Its address; it answers each connection so, without reading on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    line, _ = listening.accept()
                    with line, suppress(OSError):
                        line.recv(4096)
                        answer(line)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def said(head: str, body: bytes = b"") -> Callable[[socket.socket], None]:
    return lambda line: line.sendall(f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (said("307 Elsewhere\r\nLocation: http://127.0.0.1:1/secret"), "redirects to another address"),
        (said("401 No"), "asks for credentials"),
        (said("200 OK", b"[1]"), "no JSON object"),
        (said("200 OK", b"[" * 100_000), "does not tell of image"),
        (said("200 OK", b'{"manifests": [5, {"platform": 7}]}'), "no image for Linux"),
        (said("200 OK", b'{"config": {"digest": "sha256:../../etc"}}'), "names no configuration"),
        (said("200 OK", json.dumps({"config": {"digest": "sha256:" + "0" * 64}}).encode()), "another digest"),
        (lambda line: line.sendall(b"SSH-2.0-here\r\n\r\n"), "does not tell of image"),
        (lambda line: line.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MOST_BYTES + 1)), "more than"),
        (lambda line: line.recv(1), "does not answer in time"),
    ],
)
def test_a_registry_that_misbehaves_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[socket.socket], None], words: str
) -> None:
    monkeypatch.setattr(image_registry, "WITHIN_S", 1.0)
    with server(answer) as address, pytest.raises(BackendFailed, match=words):
        ListedRegistries([f"http://{address}"]).facts(f"{address}/train:1")
