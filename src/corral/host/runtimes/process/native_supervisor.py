"""The supervisor of jobs, a C program compiled at set-up: its path, and the remedy if it is missing."""

import os
import shutil

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native", "corral-supervisor")


def missing_supervisor() -> tuple[str, str] | None:
    """Return why no job can run under this installation, and the remedy; None if the supervisor exists."""
    if os.access(PATH, os.X_OK):
        return None
    advice = "type `make setup` in a checkout, or install Corral again"
    if shutil.which("cc") is None:
        advice = f"install a C compiler (on Debian or Ubuntu: sudo apt install gcc libc6-dev), then {advice}"
    return f"the supervisor of jobs is not compiled: {PATH} is missing", advice
