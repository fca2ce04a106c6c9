"""The sentence that says how a job ended."""

from __future__ import annotations

from corral.cli.screen import clipped
from corral.core.model.runs.exit_code import exit_code_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.client import JobRow


_NAME_COLUMNS = 40
"""The same width as in the server's sentences about jobs."""


def ending_of(row: JobRow) -> str:
    """How a job ended, in one sentence."""
    title = f"job {row.id}" + (f" ({clipped(row.name, _NAME_COLUMNS)})" if row.name else "")
    how = row.phase.lower().replace("_", " ")
    code = f" with {exit_code_in_words(row.exit_code, row.signal)}" if row.exit_code else ""
    if row.reason and row.reason.startswith(how):
        return f"{title} {row.reason}{code}"
    return f"{title} {how}{code}" + (f": {row.reason}" if row.reason else "")
