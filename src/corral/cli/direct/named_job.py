"""Find the job that a command line names by its name in place of its id."""

from __future__ import annotations

from corral.cli.screen import say
from corral.core.model.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from corral.client.connecting.transport import Transport


def is_id(word: str) -> bool:
    """Whether a word begins as the ids of jobs do. Such a word is never taken for a name."""
    return not word or word.partition("_")[0].isdecimal()


def job_meant(transport: Transport, word: str, *, lives: bool = False) -> str:
    """The id in `word`, or the id of the newest job with this name. It says which job that is.

    The caller's own jobs come first; with `lives`, jobs that have not ended come before those that have. If the job is
    an element of an array whose other elements have the same name, the array's id. Raises NotFound.
    """
    if is_id(word):
        return word
    own = _newest_two(transport, word, "me", lives=lives)
    newest = own or _newest_two(transport, word, None, lives=lives)
    if not newest:
        raise NotFound(f"{word} is neither the id nor the name of a job; `corral ps --all` lists both")
    return _told(word, newest, "" if own else f" of {newest[0]['user']}")


def jobs_to_change(transport: Transport, words: Sequence[str]) -> list[str]:
    """The ids of the jobs that these words mean, of which a name means the caller's own alone. Raises NotFound."""
    return [word if is_id(word) else _own_to_change(transport, word) for word in words]


def _own_to_change(transport: Transport, word: str) -> str:
    newest = _newest_two(transport, word, "me", lives=True)
    if not newest:
        raise NotFound(f"none of your jobs is called {word}; another user's job is changed by its id")
    return _told(word, newest, "")


def _told(word: str, newest: Sequence[dict[str, Any]], whose: str) -> str:
    first, array_id = newest[0], newest[0].get("array_id")
    whole = array_id is not None and [row.get("array_id") for row in newest[1:]] == [array_id]
    what = f"array {array_id}" if whole else f"job {first['id']} ({first['phase']})"
    say(f"this is {what}{whose}, the newest called {word}")
    return str(array_id if whole else first["id"])


def _newest_two(transport: Transport, name: str, user: str | None, *, lives: bool) -> Sequence[dict[str, Any]]:
    from corral.cli.direct.list_jobs import checked

    for every in (False, True) if lives else (True,):
        answer = transport.get("/jobs", all=every, name=checked(name, "ID"), user=user, limit=2)
        jobs: Sequence[dict[str, Any]] = answer["jobs"]
        if jobs:
            return jobs
    return ()
