"""The keys of SSH connections into one job. They are made here, for this job alone, and removed after its end."""

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from corral.core.model.errors import BackendFailed

_KEYGEN = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "")
_WITHIN_S = 20.0
_DIRECTORY = Path("~/.ssh/corral")


class JobKeys:
    """The files of a job below ~/.ssh/corral: a key of the user, a key of the host, and what ssh has to know of it.

    `server` says which server's job it is.
    """

    def __init__(self, server: str, job_id: str, alias: str) -> None:
        self.alias = alias
        self.directory = _place_of(server) / job_id
        self.key = self.directory / "key"
        self.host_key = self.directory / "host_key"
        self.known_hosts = self.directory / "known_hosts"

    def make(self) -> None:
        """Make the keys unless they are there. Raises BackendFailed if the machine has no ssh-keygen."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (self.directory / "lock").open("w") as lock:
                # Another `corral ssh` may be making them.
                fcntl.flock(lock, fcntl.LOCK_EX)
                for key in (self.key, self.host_key):
                    if not key.exists():
                        _make(key, self.directory.name)
            public = self.host_key.with_suffix(".pub").read_text()
            self.known_hosts.write_text(f"{self.alias} {public}")
        except OSError as error:
            raise BackendFailed(f"the keys of this job cannot be kept in {self.directory}: {error.strerror}") from None

    def remove(self) -> None:
        """Remove them."""
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def of_host(self) -> str:
        """The private key of the host, which the job gets."""
        return self.host_key.read_text()

    @property
    def of_user(self) -> str:
        """The public key of the user, which the job gets."""
        return self.key.with_suffix(".pub").read_text()


def remove_old(server: str, has_ended: Callable[[str], bool]) -> None:
    """Remove the keys of jobs of this server that have ended."""
    place = _place_of(server)
    for directory in place.iterdir() if place.is_dir() else ():
        if has_ended(directory.name):
            shutil.rmtree(directory, ignore_errors=True)


def _place_of(server: str) -> Path:
    return _DIRECTORY.expanduser() / hashlib.sha256(server.encode()).hexdigest()[:8]


def _make(key: Path, job_id: str) -> None:
    draft = key.with_name(f".{key.name}")
    for left in (draft, draft.with_suffix(".pub")):
        left.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [*_KEYGEN, "-C", f"corral job {job_id}", "-f", str(draft)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
        )
    except FileNotFoundError:
        raise BackendFailed("there is no ssh-keygen here: install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise BackendFailed(f"ssh-keygen did not end within {_WITHIN_S:g} s") from None
    if done.returncode != 0:
        raise BackendFailed(f"ssh-keygen failed: {done.stderr.strip()[-200:]}")
    draft.with_name(f"{draft.name}.pub").rename(key.with_name(f"{key.name}.pub"))
    draft.rename(key)
