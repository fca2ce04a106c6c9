"""The places of an installed agent, as root for the whole host, or of one user.

/usr/local/lib/corral-agent or ~/.local/lib/corral-agent has the program: `versions/V`, and the link `current` to the
version in use. /var/lib/corral-agent or ~/.local/share/corral-agent is the agent's home.
"""

import contextlib
import errno
import fcntl
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corral.core.model.home import agent_home


class CannotInstall(Exception):
    """Why it cannot be done on this host: a sentence without its full stop."""


@dataclass(frozen=True)
class AgentPlaces:
    """The paths of one installation. `by_root` installs for the whole host, otherwise for the user of `user_home`."""

    user_home: Path
    by_root: bool

    @classmethod
    def own(cls) -> "AgentPlaces":
        """Return the places of this process's user."""
        return cls(Path(pwd.getpwuid(os.geteuid()).pw_dir), os.geteuid() == 0)

    @property
    def library(self) -> Path:
        return Path("/usr/local/lib/corral-agent") if self.by_root else self.user_home / ".local/lib/corral-agent"

    @property
    def home(self) -> Path:
        """The agent's home."""
        return agent_home(self.user_home, by_root=self.by_root).root

    @property
    def versions(self) -> Path:
        return self.library / "versions"

    @property
    def current(self) -> Path:
        return self.library / "current"

    @property
    def command(self) -> Path:
        return self.current / "bin" / "corral"

    @property
    def socket(self) -> Path:
        return agent_home(self.user_home, by_root=self.by_root).agent_socket

    @property
    def owner_file(self) -> Path:
        """The file in which the agent keeps whose server it serves."""
        return agent_home(self.user_home, by_root=self.by_root).claim_file

    @property
    def unit(self) -> Path:
        if self.by_root:
            return Path("/etc/systemd/system/corral-agent.service")
        return self.user_home / ".config/systemd/user/corral-agent.service"

    @property
    def keys(self) -> Path:
        """The keys that may log in as this user."""
        return self.user_home / ".ssh" / "authorized_keys"

    def make(self) -> None:
        """Create the directories of the installation. Raises CannotInstall."""
        for directory, mode in ((self.versions, 0o755), (self.home, 0o755 if self.by_root else 0o700)):
            with in_words(directory):
                if not directory.is_dir():
                    directory.mkdir(parents=True)
                    directory.chmod(mode)
                # A file system can be read-only, or full, without a word in its modes.
                trial = directory / f".trial-{os.getpid()}"
                trial.write_bytes(b"x" * 4096)
                trial.unlink()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time change the installation. Raises CannotInstall if another is at work."""
        with (self.library / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CannotInstall(f"another installation is at work in {self.library}; try again later") from None
            yield


_WORDS = {
    errno.ENOSPC: "the disk of {path} is full",
    errno.EDQUOT: "the disk quota of this user is used up at {path}",
    errno.EROFS: "{path} is on a file system that is mounted read-only",
    errno.EACCES: "this user may not write to {path}",
    errno.EPERM: "this user may not write to {path}",
}


@contextlib.contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Raise an OSError of the block as CannotInstall, with its path and reason."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        sentence = _WORDS.get(error.errno or 0, "{path} cannot be written: {reason}")
        raise CannotInstall(sentence.format(path=where, reason=error.strerror or error)) from None


def replace(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file in one step. Raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(mode)
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


def point(path: Path, target: str) -> None:
    """Make or switch a link in one step. Raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.rename(path)
