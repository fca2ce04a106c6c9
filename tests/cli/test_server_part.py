"""What is missing where only the client is installed, and the command that adds it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from corral.cli import server_part
from corral.cli.server_part import SERVER_PACKAGES, install_command, missing_packages, require_server_part
from tests.client_only import client_distributions, modules_of, requirements

FROM_DIRECTORY = {"url": "file:///home/alice/my%20corral", "dir_info": {}}
FROM_GIT = {
    "url": "https://git.example/corral.git",
    "vcs_info": {"vcs": "git", "commit_id": "f00", "requested_revision": "v1"},
}


def test_the_list_of_what_a_server_needs_is_the_extra_of_the_package() -> None:
    assert modules_of(requirements("corral", "server") - requirements("corral")) == set(SERVER_PACKAGES)


def test_a_client_needs_little() -> None:
    distributions = client_distributions()
    assert distributions & {"numpy", "pydantic", "sqlalchemy", "starlette"} == set()
    assert len(distributions) < 15, sorted(distributions)


def test_nothing_is_asked_for_where_all_is_installed() -> None:
    assert missing_packages() == []
    require_server_part("up")


@pytest.mark.parametrize(
    ("direct_url", "file", "command"),
    [
        (FROM_DIRECTORY, None, f"{sys.executable} -m pip install '/home/alice/my corral[server]'"),
        (FROM_DIRECTORY, "pipx_metadata.json", "pipx install --force '/home/alice/my corral[server]'"),
        (FROM_DIRECTORY, "uv-receipt.toml", "uv tool install --force '/home/alice/my corral[server]'"),
        (FROM_GIT, "uv-receipt.toml", "uv tool install --force 'corral[server] @ git+https://git.example/corral.git@v1'"),
        ({"url": "file:///tmp/corral.whl", "archive_info": {}}, "pipx_metadata.json",
         "pipx install --force 'corral[server] @ file:///tmp/corral.whl'"),
        ({}, "uv-receipt.toml", "uv tool install --force 'corral[server]'"),
    ],
)  # fmt: skip
def test_the_command_is_of_the_tool_and_the_place_that_the_installation_came_from(
    direct_url: dict[str, Any], file: str | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_part, "_direct_url", lambda: direct_url)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    if file is not None:
        (tmp_path / file).touch()
    assert install_command() == command
    assert install_command("top") == command.replace("[server]", "[server,top]"), "what is there is kept"


def test_a_client_that_wants_top_gets_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_part, "_direct_url", dict)
    monkeypatch.setattr(server_part, "missing_packages", lambda: ["starlette"])
    assert install_command("top").endswith(" 'corral[top]'")
