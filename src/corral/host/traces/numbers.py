"""The highest number of a job that is known in a home. An older ledger must not give these numbers again."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from corral.core.model.errors import BackendFailed
from corral.core.model.home import Home
from corral.core.model.runs.launch import HIGHEST_NUMBER, job_number
from corral.files import read_start
from corral.host.traces.homes import DIRECTORIES, homes, names

_CLAIMS_BYTES = 16 * 1024 * 1024
_MARGIN_S = 86400.0
"""A clock may have been set back by less than this."""

_RECORDED = "SELECT number FROM known WHERE name = 'highest_job'"
_METERED = "SELECT max(CAST(allocation AS INTEGER)) FROM metered WHERE hour >= ?"
_MESSAGES = "SELECT id FROM waiting UNION ALL SELECT id FROM sent WHERE at >= ?"


def highest_number(home: Home, since: float) -> int:
    """Return the highest number of a job, or of an element of an array, that is known outside of the ledger; 0 if none
    is.

    `since` (Unix seconds) is when the ledger was last written: everything that it does not know happened later. Raises
    BackendFailed if the home cannot be read.
    """
    try:
        numbers = [number for one in homes(home) for number in _of_names(one)]
    except OSError as error:
        raise BackendFailed(
            f"{error.filename or home.root} cannot be read: {error.strerror}; it tells which numbers of jobs were given"
        ) from error
    numbers += _of_history(home.history_file, since - _MARGIN_S)
    numbers += _of_messages(home.deliveries_file, since - _MARGIN_S)
    return max(numbers, default=0)


def _of_names(home: Home) -> Iterator[int]:
    for directory in DIRECTORIES:
        yield from map(job_number, names(home.root / directory))
    try:
        claims = read_start(home.root / "claims", _CLAIMS_BYTES, follow=False)
    except OSError:
        # The list is not a regular file: a job has replaced it, and the next supervisor moves that aside.
        return
    yield from map(job_number, claims.decode(errors="replace").split())


def _of_history(path: Path, since: float) -> list[int]:
    rows = [*_answer(path, _RECORDED), *_answer(path, _METERED, since // 3600)]
    return [number for (number,) in rows if isinstance(number, int) and number < HIGHEST_NUMBER]


def _of_messages(path: Path, since: float) -> list[int]:
    return [job_number(str(name)) for (name,) in _answer(path, _MESSAGES, since) if str(name).startswith("job-")]


def _answer(path: Path, question: str, *given: float) -> list[tuple[object]]:
    """Return the rows of a query on a database that may be lost. Empty if it is missing, or damaged: it is then created
    anew.
    """
    if not path.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as file:
            return file.execute(question, given).fetchall()
    except sqlite3.Error:
        return []
