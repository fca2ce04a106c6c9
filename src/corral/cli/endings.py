"""Says how a job ended."""

from corral.client import JobRow


def ending_of(row: JobRow) -> str:
    """How a job ended, in one sentence."""
    title = f"job {row.id}" + (f" ({row.name})" if row.name else "")
    how = row.phase.lower().replace("_", " ")
    code = f" with exit code {row.exit_code}" if row.exit_code else ""
    if row.reason and row.reason.startswith(how):
        return f"{title} {row.reason}{code}"
    return f"{title} {how}{code}" + (f": {row.reason}" if row.reason else "")
