"""The claim of this server on the agents of its hosts: a tag that no other server has, and where the server runs."""

import os
import secrets

from corral.core.model.errors import BackendFailed
from corral.core.model.home import Home
from corral.files import made_once
from corral.host.node.agent_claim import ServerClaim
from corral.unix_peer import user_name

_TAG_BYTES = 16


def own_claim(home: Home) -> ServerClaim:
    """Return the claim of the server with this home, without the name of a node. Its tag is made if it is missing.

    Raises BackendFailed if the file with the tag cannot be read or made.
    """
    uid = os.geteuid()
    user = user_name(uid)
    place = f"{user}@{os.uname().nodename}:{home.root}"
    return ServerClaim(_tag(home), "", place, user=None if uid == 0 else user)


def _tag(home: Home) -> str:
    file = home.hosts_tag_file
    try:
        tag = made_once(file, f"{secrets.token_hex(_TAG_BYTES)}\n").strip()
    except (OSError, ValueError) as error:
        raise BackendFailed(f"cannot read the tag of this server in {file}: {error}") from error
    if not tag:
        raise BackendFailed(f"{file} has no tag of this server; copy it from a backup, or remove it and free the hosts")
    return tag
