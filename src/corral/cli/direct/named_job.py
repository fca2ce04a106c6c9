"""Find the job that a command line names by its name in place of its id."""

from __future__ import annotations

from corral.cli.screen import say
from corral.core.model.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from corral.client.connecting.transport import Transport


def job_meant(transport: Transport, word: str) -> str:
    """The id in `word`, or the id of the newest job with this name. The caller's own jobs come first. It says which job
    that is.

    If the job is an element of an array whose other elements have the same name, the array's id. Raises NotFound.
    """
    if not word or word.partition("_")[0].isdecimal():
        return word
    own = _newest_two(transport, word, "me")
    newest = own or _newest_two(transport, word, None)
    if not newest:
        raise NotFound(f"{word} is neither the id nor the name of a job; `corral ps --all` lists both")
    first, array_id = newest[0], newest[0].get("array_id")
    whole = array_id is not None and [row.get("array_id") for row in newest[1:]] == [array_id]
    whose = "" if own else f" of {first['user']}"
    what = f"array {array_id}" if whole else f"job {first['id']} ({first['phase']})"
    say(f"this is {what}{whose}, the newest called {word}")
    return str(array_id if whole else first["id"])


def _newest_two(transport: Transport, name: str, user: str | None) -> Sequence[dict[str, Any]]:
    from corral.cli.direct.list_jobs import checked

    answer = transport.get("/jobs", all=True, name=checked(name, "ID"), user=user, limit=2)
    jobs: Sequence[dict[str, Any]] = answer["jobs"]
    return jobs
