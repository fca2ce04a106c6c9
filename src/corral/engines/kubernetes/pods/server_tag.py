"""The tag that distinguishes the pods of one server from those of others in the same cluster."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.pods.names import Names

TAG_BYTES = 4


def names_of_server(file: Path) -> Names:
    """Return the names of the server of a home, with the tag in the file. The file is made if it is missing.

    The tag belongs to the ledger: with another tag the server would recognize none of the ledger's pods. Raises
    BackendFailed if the file cannot be read or made, or has no tag.
    """
    try:
        with suppress(FileExistsError):
            draft = file.with_name(f"{file.name}.{os.getpid()}")
            draft.write_text(f"{secrets.token_hex(TAG_BYTES)}\n")
            try:
                os.link(draft, file)
            finally:
                draft.unlink()
        return Names(file.read_text().strip())
    except (OSError, ValueError) as error:
        raise BackendFailed(f"cannot read the tag of this server's pods in {file}: {error}") from None
