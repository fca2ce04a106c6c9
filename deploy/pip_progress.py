"""Runs `pip install` of locked files of requirements, with a bar on a terminal in place of pip's lines.

    python deploy/pip_progress.py install --require-hashes -r requirements-server.lock

What pip wrote is shown where it fails. Without a terminal nothing is shown unless it does. Only the standard library.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from itertools import pairwise
from pathlib import Path

PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input", "--require-virtualenv"]
BAR = 24
DRAWN_EACH_S = 0.5
FETCHED_PART = 0.7
"""Of the time, as a rule: the rest is installing, of which pip says nothing until it is done."""


class Progress:
    """How far pip is: by what it says while it fetches, then by what has appeared among the installed packages."""

    def __init__(self, pinned: set[str], packages: Path) -> None:
        self._pinned, self._packages = len(pinned), packages
        self._seen, self._before, self._now, self._since_s = 0, 0, "", time.monotonic()
        self._installing = False

    def hear(self, line: str) -> None:
        """Take on a line of pip's."""
        if found := re.match(r"(?:Collecting|Ignoring|Requirement already satisfied:) ([\w.-]+)", line):
            self._seen += 1
            self._tell(found[1])
        elif found := re.match(r"\s+Downloading (\S+?)-\d\S* \((.+)\)", line):
            self._tell(f"{found[1].rpartition('/')[2]}, {found[2]}")
        elif found := re.match(r"Installing collected packages: (.+)", line):
            self._installing, self._before, self._pinned = True, self._installed(), found[1].count(",") + 1
            self._tell("")

    def _tell(self, what: str) -> None:
        self._now, self._since_s = what, time.monotonic()

    def _installed(self) -> int:
        return sum(1 for _ in self._packages.glob("*.dist-info"))

    def shown(self) -> tuple[float, str]:
        """The part that is done, and what is being done, with how long that has taken where it takes long."""
        total, lasts_s = max(1, self._pinned), int(time.monotonic() - self._since_s)
        if self._installing:
            done = max(0, min(total, self._installed() - self._before))
            part = FETCHED_PART + (1 - FETCHED_PART) * done / total
            return part, f"installing {done} of {total} packages, {lasts_s} s"
        seen, waited = min(self._seen, total), f", {lasts_s} s" if lasts_s else ""
        return FETCHED_PART * seen / total, f"{seen} of {total} packages: {self._now}{waited}"


def pinned(arguments: list[str]) -> set[str]:
    """The packages that the files after -r pin."""
    files = [Path(after) for flag, after in pairwise(arguments) if flag == "-r"]
    return {name for path in files for name in re.findall(r"^([\w.\[\]-]+)==", path.read_text(), re.MULTILINE)}


def packages_of(arguments: list[str]) -> Path:
    """Where the packages go: into the environment of --python, else into this one."""
    for flag, after in pairwise(arguments):
        if flag == "--python":
            found = Path(after).parent.parent.glob("lib/python*/site-packages")
            return next(found, Path(after))
    return Path(sysconfig.get_path("purelib"))


def draw(part: float, what: str) -> None:
    """Draw the bar in place, within the width of the terminal."""
    bar = ("#" * round(part * BAR)).ljust(BAR, ".")
    columns = shutil.get_terminal_size((80, 24)).columns
    sys.stderr.write(f"\r\033[2K{f'{bar} {part:4.0%}  {what}'[: columns - 1]}")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Run pip; its exit code."""
    progress, said, over = Progress(pinned(arguments), packages_of(arguments)), [], threading.Event()

    def keep_drawing() -> None:
        while not over.wait(DRAWN_EACH_S):
            draw(*progress.shown())
        draw(*progress.shown())
        sys.stderr.write("\r\033[2K")

    drawer = threading.Thread(target=keep_drawing, daemon=True)
    if sys.stderr.isatty():
        drawer.start()
    with subprocess.Popen(
        [sys.executable, *PIP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            progress.hear(line)
    over.set()
    if drawer.is_alive():
        drawer.join()
    if pip.returncode:
        sys.stderr.writelines(said)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
