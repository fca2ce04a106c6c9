"""The version of this checkout: the release and the commit, `0.1.0+g1a2b3c4`, or the release alone where a tag says so.

    python deploy/version.py             # prints it
    python deploy/version.py --write     # writes it to src/corral/version.txt, which `corral` reads

A tree with changes adds `.dirty`. What was unpacked without git keeps the version that was written when it was packed.
The build of a package asks for `version()` and writes the same file (pyproject.toml). Only the standard library.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMIT_DIGITS = 7


def version(root: Path = ROOT) -> str:
    """What `corral --version` is to say after this checkout is set up, installed or packed."""
    package = root / "src/corral"
    found = re.search(r'^RELEASE = "(.+)"$', (package / "__init__.py").read_text(), re.MULTILINE)
    assert found is not None
    release = found[1]
    if not (root / ".git").exists():  # a repository further up is another project's
        written = package / "version.txt"
        return written.read_text().strip() if written.is_file() else release
    try:
        commit = _git(root, "rev-parse", "HEAD")[:COMMIT_DIGITS]
        changed = bool(_git(root, "status", "--porcelain"))
        tagged = f"v{release}" in _git(root, "tag", "--points-at", "HEAD").split()
    except (OSError, subprocess.CalledProcessError):  # no git here, or no commit yet
        return release
    return release if tagged and not changed else f"{release}+g{commit}{'.dirty' if changed else ''}"


def _git(root: Path, *words: str) -> str:
    """What git says of this checkout, to root of a user's too. It writes nothing and runs none of its hooks."""
    git = ["git", "--no-optional-locks", "-C", str(root), "-c", f"safe.directory={root}", "-c", "core.fsmonitor=false"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run([*git, *words], env=environ, check=True, capture_output=True, text=True).stdout.strip()


def write(root: Path = ROOT) -> None:
    """Write the version where the package reads it, in one step, unless it is there."""
    path, text = root / "src/corral/version.txt", f"{version(root)}\n"
    if path.is_file() and path.read_text() == text:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        write()
    else:
        print(version())
