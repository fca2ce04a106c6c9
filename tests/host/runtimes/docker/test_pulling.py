"""Images come from a real registry that wants a password, with what the job's user has for it."""

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.host.runtimes.docker import as_user, pulling
from corral.host.runtimes.docker.daemon_calls import Daemon
from corral.host.runtimes.docker.pulling import ImageMissing, credentials_for, get_image, progress
from corral.host.runtimes.docker.records import HostUser, RunnerOrders
from tests.docker.daemon import DockerDaemon
from tests.docker.image import IMAGE

WITHIN_S = 60.0
# "secret", by bcrypt, as a registry wants it.
_PASSWORDS = "alice:$2b$04$gBo.UVSKlaEoH3mwautOz.oSai4GBzWnrW5dGwn2u.vbIqgHKf.wi\n"
_SITE = """version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {directory}/images}}}}
http: {{addr: "{address}"}}
auth: {{htpasswd: {{realm: test, path: {directory}/passwords}}}}
"""
ME = HostUser(os.geteuid(), os.getegid(), [])


def credentials(registry: str, name: str = "alice", password: str = "secret") -> str:
    word = base64.b64encode(f"{name}:{password}".encode()).decode()
    return json.dumps({"auths": {registry: {"auth": word}}})


def orders_for(image: str, pull: str = "missing") -> RunnerOrders:
    return RunnerOrders("a", {"Image": image}, [], "/s", [], pull, ME, 1.0, ("", ""))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of Docker's in the home of the job's user."""
    monkeypatch.setattr(pulling, "home_of", lambda uid: tmp_path)
    (tmp_path / ".docker").mkdir()
    return tmp_path / ".docker"


@pytest.fixture
def registry(docker_host: DockerDaemon, tmp_path: Path) -> Iterator[str]:
    """The address of a registry that knows alice, in the daemon's network."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("no docker-registry")
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
    (tmp_path / "passwords").write_text(_PASSWORDS)
    (tmp_path / "site.yml").write_text(_SITE.format(directory=tmp_path, address=address))
    log = (tmp_path / "registry.log").open("wb")
    with log, subprocess.Popen([program, "serve", str(tmp_path / "site.yml")], stdout=log, stderr=log) as process:
        try:
            until = time.monotonic() + WITHIN_S
            while not _answers(address):
                assert process.poll() is None, (tmp_path / "registry.log").read_text()
                assert time.monotonic() < until
                time.sleep(0.05)
            yield address
        finally:
            process.kill()


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"http://{address}/v2/")
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False
    return True


def test_an_image_is_pulled_with_the_password_of_the_jobs_user_and_not_without(
    docker_host: DockerDaemon, registry: str, home: Path
) -> None:
    image = f"{registry}/team/train:1"
    docker_host.docker("tag", IMAGE, image)
    (home / "config.json").write_text(credentials(registry))
    docker_host.docker("--config", str(home), "push", image)
    docker_host.docker("rmi", image)
    daemon, told = Daemon(), list[str]()
    for text, words in (("{}", "without credentials"), (credentials(registry, password="wrong"), "with your cred")):
        (home / "config.json").write_text(text)
        with pytest.raises(ImageMissing, match=rf"cannot be pulled {words}.*: .*"):
            get_image(daemon, orders_for(image), told.append)
    assert not daemon.has_image(image)
    (home / "config.json").write_text(credentials(registry))
    get_image(daemon, orders_for(image), told.append)
    assert daemon.has_image(image)
    assert told[-1].startswith(f"image {image} is being pulled")
    with pytest.raises(ImageMissing, match="team/other"):
        get_image(daemon, orders_for(f"{registry}/team/other:1"), told.append)
    daemon.close()


def test_an_image_that_is_there_is_asked_for_again_only_where_that_is_wanted(
    docker_host: DockerDaemon, home: Path
) -> None:
    daemon, told = Daemon(), list[str]()
    get_image(daemon, orders_for(IMAGE), told.append)
    get_image(daemon, orders_for(IMAGE, "never"), told.append)
    assert told == []
    with pytest.raises(ImageMissing, match=r"127\.0\.0\.1"):
        # Nothing listens there.
        get_image(daemon, orders_for("127.0.0.1:1/x:1", "never"), told.append)
    daemon.close()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "no json",
            "[]",
            '{"auths": 5}',
            '{"auths": {"a": 5}}',
            '{"auths": {"r:1": {"auth": "!"}}}',
            "[" * 100_000,
        ),
        json.dumps({"credsStore": "evil", "credHelpers": {"r:1": "evil"}}),
        json.dumps({"auths": {"r:1": {}}, "credsStore": "evil"}),
    ],
)
def test_what_is_no_password_is_none_and_no_program_that_the_file_names_is_run(
    text: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "docker-credential-evil"
    helper.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (home / "config.json").write_text(text)
    assert credentials_for("r:1/x:1", orders_for("r:1/x:1")) is None
    assert not (tmp_path / "ran").exists()


def test_a_file_that_never_answers_is_not_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_user, "_ANSWER_S", 0.5)
    os.mkfifo(home / "config.json")
    assert credentials_for("r:1/x:1", orders_for("r:1/x:1")) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_file_is_read_as_the_jobs_user(home: Path) -> None:
    (home / "config.json").write_text(credentials("r:1"))
    (home / "config.json").chmod(0o600)
    mine = orders_for("r:1/x:1")
    assert credentials_for("r:1/x:1", mine) is not None
    assert credentials_for("r:1/x:1", replace(mine, owner=HostUser(65534, 65534, []))) is None


def test_progress_is_told_in_layers_and_in_what_is_under_way() -> None:
    layers: list[dict[str, Any]] = [
        {"id": "1", "status": "Pull complete"},
        {"id": "2", "status": "Downloading", "progressDetail": {"current": 100 << 20, "total": 400 << 20}},
        {"id": "3", "status": "Waiting"},
        {"id": "latest", "status": "Pulling from team/train"},
    ]
    assert progress(layers) == "1 of 3 layers, 100M of 400M of those under way"
    assert progress(()) == "0 of 0 layers"
