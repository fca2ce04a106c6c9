"""Installs Corral for everybody on a machine, or for one user, and removes it again: `make install`, `make uninstall`.

    PREFIX/lib/corral/versions/0.1.0+g1a2b3c4-20260131T101500Z/   one installation: a virtual environment
    PREFIX/lib/corral/current                            a link to the one that is used
    PREFIX/lib/corral/installed.json                     what else was made, for `uninstall`
    PREFIX/bin/corral                                    a link through `current`: no other program gets onto the PATH
    PREFIX/lib/systemd/system/corral.service             if root installs, and systemd is there
    PREFIX/share/...                                     completions for bash, zsh and fish

Files that somebody may be running are never changed. An installation is made beside the others, and then the link is
switched, in one step. What runs keeps the files it was started from: an older installation is removed by a later
install, once no process uses it. Start reading at `install`.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PROGRESS = CHECKOUT / "deploy" / "pip_progress.py"
UNIT = CHECKOUT / "deploy" / "corral.service"
UNIT_COMMAND = "/usr/local/bin/corral"
"""The command that UNIT names, in place of which the installed one is put."""

SEARCHED = (Path("/usr/local"), Path("/usr"))
"""Below these systemd finds a unit by its name."""

ENABLED = Path("/etc/systemd/system")
"""Where systemd keeps links to the units that it starts."""

COMPLETIONS = {
    "bash": "share/bash-completion/completions/corral",
    "zsh": "share/zsh/site-functions/_corral",
    "fish": "share/fish/vendor_completions.d/corral.fish",
}
HASHED = ("--require-hashes", "--only-binary", ":all:", "--no-deps")
RECORD = "installed.json"
LOCK = ".lock"
_PREFIX = re.compile(r"/[\w./+@-]*")
_UNWANTED = re.compile(r"PYTHON|PIP_(USER|TARGET|PREFIX|ROOT|PYTHON|NO_CACHE_DIR)$")
_NO_CACHE = ("--no-cache-dir", "--disable-pip-version-check")
_LAST_LINES = 12


class Failed(Exception):
    """What keeps this from being done, and what to type."""


@dataclass(frozen=True)
class Layout:
    """Where everything goes. `staging` (DESTDIR) stands before each path while it is written, and in no file."""

    prefix: Path
    staging: str = ""

    def at(self, path: Path | str) -> Path:
        """Where a path of the installed system is now."""
        return Path(f"{self.staging}{path}")

    @property
    def library(self) -> Path:
        return self.prefix / "lib" / "corral"

    @property
    def versions(self) -> Path:
        return self.library / "versions"

    @property
    def current(self) -> Path:
        return self.library / "current"

    @property
    def command(self) -> Path:
        return self.prefix / "bin" / "corral"

    @property
    def unit(self) -> Path:
        return self.prefix / "lib" / "systemd" / "system" / "corral.service"


@dataclass
class Installed:
    """What `installed.json` says was made: files by the hash of their content, directories, and the site's packages."""

    files: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    packages: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, layout: Layout) -> "Installed":
        """Empty where nothing is installed. Raises Failed for a file that is not one of these."""
        path = layout.at(layout.library / RECORD)
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError:
            return cls()
        except (ValueError, TypeError) as error:
            raise Failed(f"{path} cannot be read ({error}); remove {layout.library} by hand") from None

    def write(self, layout: Layout) -> None:
        text = json.dumps(vars(self), indent=1) + "\n"
        replace(layout.at(layout.library / RECORD), text)

    def make_directory(self, layout: Layout, path: Path) -> None:
        """Make a directory and those above it, and note which were not there."""
        missing = [one for one in (path, *path.parents) if not layout.at(one).exists()]
        for one in reversed(missing):
            layout.at(one).mkdir()
            self.directories.append(str(one))

    def put(self, layout: Layout, path: Path, text: str) -> None:
        """Write a file that uninstalling is to remove."""
        self.make_directory(layout, path.parent)
        replace(layout.at(path), text)
        self.files[str(path)] = hash_of(text.encode())


def install(layout: Layout, packages: Sequence[str] | None) -> list[str]:
    """Install this checkout, with the site's own `packages` (None: those of the last time). Returns what to tell."""
    began = time.monotonic()
    check_prefix(layout)
    check_interpreter(layout)
    check_command(layout)
    installed = Installed.read(layout)
    for path in (layout.command.parent, layout.versions):
        installed.make_directory(layout, path)
    with locked(layout):
        installed.write(layout)
        if packages is not None:
            installed.packages = [absolute(one) for one in packages]
        environment = new_name(layout)
        before = current_of(layout)
        try:
            make_environment(layout, environment, installed.packages)
        except BaseException:
            if not before:
                remove(layout, installed)
            raise
        switch(layout, environment)
        for path, text in surroundings(layout, environment):
            installed.put(layout, path, text)
        installed.write(layout)
        kept = remove_unused(layout, keep=(environment.name, before))
    took_s = time.monotonic() - began
    return [
        f"Corral {version()} is installed in {layout.at(layout.prefix)} ({took_s:.0f} s)",
        *kept,
        *what_next(layout, before),
    ]


def uninstall(layout: Layout, *, force: bool) -> list[str]:
    """Remove what `install` made, and nothing else. Returns what to tell."""
    library = layout.at(layout.library)
    if not (library / RECORD).is_file():
        raise Failed(f"nothing is installed in {layout.prefix}; say where: make uninstall PREFIX=/opt/corral")
    if not os.access(library, os.W_OK):
        raise Failed(f"you may not write to {library}; type: sudo make uninstall PREFIX={layout.prefix}")
    if not force:
        check_unused(layout)
    told = remove(layout, Installed.read(layout))
    told.append(
        f"Corral is removed from {layout.at(layout.prefix)}. Jobs, logs and settings stay: /var/lib/corral, ~/.corral"
    )
    return told


def remove(layout: Layout, installed: Installed) -> list[str]:
    """Remove every file that was made, and the directories that were made and are empty now."""
    told = []
    if is_ours(layout):
        layout.at(layout.command).unlink()
    for name, content in installed.files.items():
        path = layout.at(name)
        if path.is_file() and hash_of(path.read_bytes()) != content:
            told.append(f"{path} stays: it was changed since it was installed")
        else:
            path.unlink(missing_ok=True)
    shutil.rmtree(layout.at(layout.versions), ignore_errors=True)
    for path in (layout.current, layout.library / LOCK, layout.library / RECORD):
        layout.at(path).unlink(missing_ok=True)
    for name in reversed(installed.directories):
        try:
            layout.at(name).rmdir()
        except OSError:  # not empty: others use it, too
            continue
    return told


# Before anything is written


def check_prefix(layout: Layout) -> None:
    """Raise Failed unless this user can install there."""
    if _PREFIX.fullmatch(str(layout.prefix)) is None:
        raise Failed(f"PREFIX must be an absolute path of letters, digits and . _ + @ -, not {str(layout.prefix)!r}")
    nearest = next(path for path in (layout.at(layout.prefix), *layout.at(layout.prefix).parents) if path.exists())
    if not nearest.is_dir():
        raise Failed(f"{nearest} is not a directory; choose another PREFIX")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Failed(
            f"you may not write to {nearest}. For everybody: sudo make install PREFIX={layout.prefix}. "
            "For you alone: make install PREFIX=$HOME/.local"
        )


def check_interpreter(layout: Layout) -> None:
    """Raise Failed if root installs for everybody with a Python that only root may enter."""
    python = Path(os.path.realpath(sys.executable))
    places = (python, Path(sysconfig.get_path("stdlib")))
    if os.geteuid() == 0 and not layout.staging and (closed := [one for one in places if closed_to_others(one)]):
        raise Failed(
            f"other users could not use {python}: {closed_to_others(closed[0])} is closed to them. "
            "Choose another Python: make install PYTHON=/usr/bin/python3"
        )


def check_command(layout: Layout) -> None:
    """Raise Failed if PREFIX/bin/corral is something else."""
    if os.path.lexists(layout.at(layout.command)) and not is_ours(layout):
        raise Failed(
            f"{layout.command} is there, and `make install` did not make it; remove it first: rm {layout.command}"
        )


def check_unused(layout: Layout) -> None:
    """Raise Failed while a process needs what is installed, or systemd would start it."""
    links = [*ENABLED.glob("corral.service"), *ENABLED.glob("*.wants/corral.service")]
    unit = os.path.realpath(layout.unit)
    if not layout.staging and any(os.path.realpath(link) == unit for link in links):
        raise Failed("systemd starts the server from it; first type: systemctl disable --now corral")
    if users := users_of(layout.versions):
        raise Failed(
            f"processes {shown(users)} run from {layout.versions}: a server, or jobs. Stop the server (corral down) "
            f"and let the jobs end; or type: make uninstall PREFIX={layout.prefix} FORCE=1 (such a server fails then)"
        )


def is_ours(layout: Layout) -> bool:
    """Whether PREFIX/bin/corral is the link that `switch` makes."""
    path = layout.at(layout.command)
    return path.is_symlink() and os.readlink(path) == link_of(layout)


def link_of(layout: Layout) -> str:
    """What PREFIX/bin/corral points to."""
    return os.path.relpath(layout.current / "bin" / "corral", layout.command.parent)


def closed_to_others(path: Path) -> Path | None:
    """The part of a path that users other than its owner and group may not pass; None if they may."""
    for part in (path, *path.parents):
        wanted = 0o001 if part.is_dir() else 0o004
        if part.exists() and not part.stat().st_mode & wanted:
            return part
    return None


# An installation


def new_name(layout: Layout) -> Path:
    """The directory of a new installation: the version and the time."""
    name = f"{version()}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    taken = [path.name for path in layout.at(layout.versions).glob(f"{name}*")]
    return layout.versions / (f"{name}-{len(taken)}" if taken else name)


def make_environment(layout: Layout, environment: Path, packages: Sequence[str]) -> None:
    """Make a virtual environment with Corral in it; gone again if that fails."""
    path = layout.at(environment)
    tell(f"installing Corral {version()} in {path} ...")
    try:
        with tempfile.TemporaryDirectory(prefix="corral-install-") as scratch:
            pip = Pip(Path(scratch) / "tools")
            pip.install(None, *HASHED, "-r", str(CHECKOUT / "requirements-build.lock"))
            build_pages(Path(scratch) / "tools/bin/python")
            pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, str(CHECKOUT))
            give_back()
            check_wheel(Path(scratch))
            venv.EnvBuilder(symlinks=True).create(path)
            pip.install_shown(path, *HASHED, "-r", str(CHECKOUT / "requirements-server.lock"))
            pip.install(path, "--no-deps", "--no-index", "--find-links", scratch, "corral")
            if packages:
                pip.install(path, *packages)
        finish(layout, environment)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def check_wheel(directory: Path) -> None:
    """Raise Failed for a wheel without the supervisor of jobs; one with it is for this kind of machine alone."""
    (wheel,) = directory.glob("corral-*.whl")
    if wheel.name.endswith("-any.whl"):
        raise Failed(
            "the supervisor of jobs cannot be compiled, and no server starts without it; nothing is changed. "
            "Install a C compiler (on Debian or Ubuntu: sudo apt install gcc libc6-dev), then try again"
        )


def build_pages(python: Path) -> None:
    """Build the pages of the dashboard in the checkout, unless they are, and where what that needs can be fetched."""
    subprocess.run([python, "-I", CHECKOUT / "deploy" / "build_pages.py", "--if-possible"])


MADE = ("web/node_modules", "src/corral/pages", "build", "src/corral/version.txt")


def give_back() -> None:
    """What root's installation has made in the checkout becomes its owner's, whose `make setup` is to replace it."""
    owner = CHECKOUT.stat()
    made = [path for name in MADE if (path := CHECKOUT / name).exists()]
    if os.geteuid() == 0 and owner.st_uid != 0 and made:
        subprocess.run(["chown", "-R", f"{owner.st_uid}:{owner.st_gid}", *made])


class Pip:
    """A pip in an environment of its own, which installs into another: that one needs none."""

    def __init__(self, directory: Path) -> None:
        venv.EnvBuilder(with_pip=True, symlinks=True).create(directory)
        self._python = [str(directory / "bin" / "python"), "-I"]
        # Neither a path of the caller's nor his wish to install elsewhere is to change what gets where.
        self._environ = {name: value for name, value in os.environ.items() if not _UNWANTED.match(name)}

    def install(self, environment: Path | None, *words: str) -> None:
        """Install into an environment; None is its own."""
        self(*self._install(environment), *words)

    def install_shown(self, environment: Path, *words: str) -> None:
        """The same, with a bar on a terminal."""
        command = [*self._python, str(PROGRESS), *_NO_CACHE, *self._install(environment), *words]
        if subprocess.run(command, env=self._environ).returncode != 0:
            raise Failed("pip failed (see above); nothing is changed")

    def _install(self, environment: Path | None) -> list[str]:
        into = [] if environment is None else ["--python", str(environment / "bin" / "python")]
        return [*into, "install", "--no-compile", "--no-warn-script-location"]

    def __call__(self, *words: str) -> None:
        """Run pip, whose last lines are shown if it fails."""
        command = [*self._python, "-m", "pip", "--quiet", *_NO_CACHE, *words]
        done = subprocess.run(
            command, env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines() if not line.startswith("WARNING")]
            raise Failed("\n".join(["pip failed; nothing is changed. It said:", *lines[-_LAST_LINES:]]))


def finish(layout: Layout, environment: Path) -> None:
    """Make the environment what it is to be: compiled, readable by all, its programs started with their final paths."""
    path = layout.at(environment)
    for script in (path / "bin").glob("[Aa]ctivate*"):
        script.unlink()
    for script in (path / "bin").iterdir():
        if not script.is_symlink():
            rewrite_first_line(script, str(path / "bin"), str(environment / "bin"))
    notes = path / "pyvenv.cfg"
    notes.write_text("".join(line for line in notes.read_text().splitlines(True) if not line.startswith("command")))
    strip = ["-s", layout.staging, "-p", "/"] if layout.staging else []
    # Compiled now: its users may not write here, and would each compile everything at every command.
    subprocess.run(
        [path / "bin" / "python", "-I", "-m", "compileall", "-q", "-x", "/tests?/", "-j", "0", *strip, path / "lib"],
        check=False,
    )
    for root, directories, files in os.walk(path):
        for name in (*directories, *files):
            one = Path(root, name)
            if not one.is_symlink():
                mode = one.stat().st_mode
                one.chmod(mode | (0o555 if one.is_dir() or mode & 0o100 else 0o444))


def rewrite_first_line(script: Path, staged: str, final: str) -> None:
    """Have a program start with the final path of its Python, which takes nothing from its user's PYTHONPATH."""
    text = script.read_bytes().replace(os.fsencode(staged), os.fsencode(final))
    first, _, rest = text.partition(b"\n")
    if first == b"#!" + os.fsencode(f"{final}/python"):  # too long a path has another form, which stays as it is
        text = first + b" -I\n" + rest
    script.write_bytes(text)


def switch(layout: Layout, environment: Path) -> None:
    """From now on commands start from this environment."""
    point(layout.at(layout.current), str(Path("versions", environment.name)))
    point(layout.at(layout.command), link_of(layout))


def surroundings(layout: Layout, environment: Path) -> Iterator[tuple[Path, str]]:
    """The files outside of the environment, with their content."""
    # The command's first line may name a path that is not there yet.
    command = [layout.at(environment) / "bin" / name for name in ("python", "corral")]
    for shell, place in COMPLETIONS.items():
        done = subprocess.run([*command, "completion", shell], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout:
            yield layout.prefix / place, done.stdout
    if has_service(layout):
        yield layout.unit, UNIT.read_text().replace(UNIT_COMMAND, str(layout.command))


def has_service(layout: Layout) -> bool:
    """Whether a unit of the system is wanted: by root where systemd is, and in every package."""
    return bool(layout.staging) or (os.geteuid() == 0 and shutil.which("systemctl") is not None)


# Older installations


def current_of(layout: Layout) -> str:
    """The name of the installation in use, "" where there is none."""
    path = layout.at(layout.current)
    return Path(os.readlink(path)).name if path.is_symlink() else ""


def remove_unused(layout: Layout, keep: tuple[str, ...]) -> list[str]:
    """Remove older installations that no process uses; what to tell of the others."""
    told = []
    for path in sorted(layout.at(layout.versions).iterdir()):
        if path.name in keep:
            continue
        if users := users_of(layout.versions / path.name):
            told.append(f"{path.name} stays: processes {shown(users)} were started from it; a later install removes it")
        else:
            shutil.rmtree(path)
    return told


def users_of(directory: Path) -> list[int]:
    """The processes that were started from a directory, have files of it mapped, or were told of it."""
    needle = os.fsencode(f"{directory}/")
    found = []
    for process in Path("/proc").iterdir():
        if (
            process.name.isdigit()
            and int(process.name) != os.getpid()
            and any(needle in text for text in traces(process))
        ):
            found.append(int(process.name))
    return sorted(found)


def traces(process: Path) -> Iterator[bytes]:
    """Where the paths stand that a process needs."""
    for name in ("cmdline", "environ", "maps"):
        try:
            yield (process / name).read_bytes()
        except OSError:  # it has ended, or is another user's: such a one was not started from here by this user
            continue


# What is said in the end


def what_next(layout: Layout, before: str) -> list[str]:
    """What to type next, as it is on this machine."""
    if layout.staging:
        return []
    told = []
    if (closed := closed_to_others(layout.command)) is not None and os.geteuid() == 0:
        told.append(f"other users cannot reach it: {closed} is closed to them. To open it: chmod a+rx {closed}")
    found = shutil.which("corral")
    if found is None or not os.path.samefile(found, layout.command):
        where = f"{layout.command.parent} is not on your PATH" if found is None else f"your shell finds {found} first"
        told.append(f"{where}; type: ln -sf {layout.command} /usr/local/bin/" if os.geteuid() == 0 else where)
    if has_service(layout):
        told.append(
            "the server: systemctl daemon-reload && systemctl restart corral (jobs run on)"
            if before
            else f"the server: systemctl enable --now {'corral' if layout.prefix in SEARCHED else layout.unit}"
        )
    elif before:
        told.append(
            "a server that runs is still the old one; restart it (jobs run on): corral down; corral up --detach"
        )
    else:
        told.append(f"the server: {layout.command} up --detach")
    return told


def shown(pids: Sequence[int]) -> str:
    """The first few of them, for a message."""
    return ", ".join(map(str, pids[:5])) + (f" and {len(pids) - 5} more" if len(pids) > 5 else "")


# Files


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """One at a time. Raises Failed if another installs there."""
    with layout.at(layout.library / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failed(f"another `make install` is at work in {layout.library}") from None
        yield


def replace(path: Path, text: str) -> None:
    """Write a file in one step, readable by all."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text)
    draft.chmod(0o644)
    draft.rename(path)


def point(path: Path, target: str) -> None:
    """Make or switch a link in one step."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.rename(path)


def hash_of(content: bytes) -> str:
    """By which a file is known again."""
    return hashlib.sha256(content).hexdigest()


def absolute(package: str) -> str:
    """A package as it is named from anywhere: a directory or file by its whole path."""
    return os.path.abspath(package) if os.path.exists(package) else package


@cache
def version() -> str:
    """Of this checkout."""
    command = [sys.executable, "-I", str(CHECKOUT / "deploy" / "version.py")]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def tell(*lines: str) -> None:
    """Print lines at once."""
    for line in lines:
        print(line, flush=True)


def main(words: Iterable[str]) -> int:
    """Do what is asked; 1 when it could not be done."""
    parser = argparse.ArgumentParser(description="Install or remove Corral; see `make help`.")
    parser.add_argument("do", choices=["install", "uninstall"])
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--destdir", default="")
    parser.add_argument("--with", dest="packages", metavar="PACKAGES")
    parser.add_argument("--force", action="store_true")
    given = parser.parse_args(list(words))
    layout = Layout(given.prefix, given.destdir.rstrip("/"))
    os.umask(0o022)
    try:
        if given.do == "install":
            tell(*install(layout, None if given.packages is None else given.packages.split()))
        else:
            tell(*uninstall(layout, force=given.force))
    except Failed as failed:
        print(f"make {given.do}: {failed}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"make {given.do}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
