"""The packages of the extra `server`, which a client does not need, and the command that installs missing ones."""

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from corral.core.model.errors import CorralError

SERVER_PACKAGES = (
    *("alembic", "anyio", "apprise", "ddsketch", "docker", "httptools", "numpy", "pydantic"),
    *("sqlalchemy", "starlette", "strawberry", "uvicorn", "wsproto"),
)
"""The packages that the extra `server` installs, by their import names."""


class ServerPartMissing(CorralError):
    """A command needs packages that are not installed here. The message has the command that installs them."""


def require_server_part(command: str) -> None:
    """Raise ServerPartMissing unless every package that a server needs is installed."""
    if missing := missing_packages():
        raise ServerPartMissing(missing_in_words(f"`corral {command}`", missing))


def missing_packages() -> list[str]:
    """The packages of SERVER_PACKAGES that are not installed."""
    return [name for name in SERVER_PACKAGES if importlib.util.find_spec(name) is None]


def missing_in_words(who: str, missing: list[str]) -> str:
    """The sentence that `who` needs the missing packages, with the command to type."""
    return f"{who} needs packages that a client does without ({', '.join(missing)}); install them: {install_command()}"


def install_command(extra: str = "server") -> str:
    """The shell command that adds the extra to this installation, with the tool that made the installation.

    Some tools reinstall everything. So an installation with the server's packages must name them again.
    """
    wanted = extra if extra == "server" or missing_packages() else f"server,{extra}"
    return shlex.join([*_installer(Path(sys.prefix)), _source(_direct_url(), wanted)])


def _installer(prefix: Path) -> list[str]:
    """The words of the installer's command. pipx and uv each leave a file in the environments of their tools."""
    if (prefix / "pipx_metadata.json").exists():
        return ["pipx", "install", "--force"]
    if (prefix / "uv-receipt.toml").exists():
        return ["uv", "tool", "install", "--force"]
    if importlib.util.find_spec("pip") is None:
        return ["uv", "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install"]


def _source(direct_url: dict[str, Any], extras: str) -> str:
    """The thing to install: Corral with the extras, from the source of this installation (PEP 610)."""
    url = str(direct_url.get("url") or "")
    if not url:
        return f"corral[{extras}]"
    if "dir_info" in direct_url:
        return f"{unquote(urlsplit(url).path)}[{extras}]"
    if "vcs_info" in direct_url:
        vcs = direct_url["vcs_info"]
        revision = vcs.get("requested_revision")
        return f"corral[{extras}] @ {vcs.get('vcs', 'git')}+{url}" + (f"@{revision}" if revision else "")
    return f"corral[{extras}] @ {url}"


def _direct_url() -> dict[str, Any]:
    """The source of this installation; {} if its tool has not recorded it."""
    from importlib.metadata import PackageNotFoundError, distribution  # takes 10 ms to import

    try:
        noted = json.loads(distribution("corral").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}
