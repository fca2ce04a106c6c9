"""Runs `pip install` of a locked file of requirements, with a bar on a terminal in place of pip's lines.

    python deploy/pip_progress.py install --require-hashes -r requirements.lock

What pip wrote is shown where it fails. Without a terminal nothing is shown unless it does. Only the standard library.
"""

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input", "--require-virtualenv"]
BAR = 24
FETCHED_PART = 0.7
"""Of the time, as a rule: the rest is installing, of which pip says nothing until it is done."""


def pinned(arguments: list[str]) -> int:
    """How many packages the files after -r pin."""
    files = [Path(after) for flag, after in pairwise(arguments) if flag == "-r"]
    return sum(len(re.findall(r"^[\w.\[\]-]+==", path.read_text(), re.MULTILINE)) for path in files)


def show(part: float, what: str) -> None:
    """Draw the bar in place, within the width of the terminal."""
    if sys.stderr.isatty():
        bar = ("#" * round(part * BAR)).ljust(BAR, ".")
        columns = shutil.get_terminal_size((80, 24)).columns
        sys.stderr.write(f"\r\033[2K{f'{bar} {part:4.0%}  {what}'[: columns - 1]}")
        sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Run pip; its exit code."""
    total, fetched, said = pinned(arguments), 0, []
    with subprocess.Popen(
        [sys.executable, *PIP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            found = re.match(r"(?:Collecting|Ignoring|Requirement already satisfied:) ([\w.-]+)", line)
            if found and total:
                fetched += 1
                show(FETCHED_PART * min(1.0, fetched / total), f"{fetched} of {total} packages: {found[1]}")
            elif line.startswith("Installing collected packages"):
                show(FETCHED_PART, f"installing {total} packages ...")
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[2K")
    if pip.returncode:
        sys.stderr.writelines(said)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
