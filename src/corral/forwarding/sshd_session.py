"""One SSH session inside a job: an `sshd -i` of the job's host, run as the job's user.

It has only the keys that were made for this job, and gives its sessions the variables of the job.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from typing import NoReturn

NO_SSHD = 69

_PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/lib/openssh", "/usr/libexec")
_ROOTS_PLACE = "/run/sshd"
_SESSIONS_OWN = ("HOME", "LOGNAME", "USER", "SHELL", "MAIL", "TERM", "LINES", "COLUMNS", "PWD", "OLDPWD", "SHLVL", "_")

_CONFIG = """\
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
PrintMotd no
PrintLastLog no
X11Forwarding no
LogLevel ERROR
Subsystem sftp internal-sftp
SetEnv {variables}
"""


def main(host_key: str, client_key: str) -> NoReturn:
    """Become the `sshd` of one connection, which is this process's input and output."""
    os.umask(0o077)
    program = shutil.which("sshd", path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_PLACES)))
    if program is None:
        _fail(f"there is no sshd on {os.uname().nodename}: install openssh-server there; `corral exec` needs none")
    if os.geteuid() == 0:
        # Root's sshd puts processes without rights there. A service that is not running has no such directory.
        os.makedirs(_ROOTS_PLACE, mode=0o755, exist_ok=True)
    directory = _directory(client_key)
    # The directory is this user's alone, so StrictModes has nothing to add.
    config = _CONFIG.format(directory=directory, variables=_variables())
    for name, text in (("host_key", host_key), ("authorized_keys", client_key), ("sshd_config", config)):
        _write(directory, name, text)
    program = os.path.abspath(program)
    try:
        os.execv(program, [program, "-i", "-e", "-f", os.path.join(directory, "sshd_config")])
    except OSError as error:
        _fail(f"{program} cannot be run: {error.strerror}")


def _directory(client_key: str) -> str:
    """Return a directory for the files of this key, which goes with the job."""
    scratch = os.environ.get("CORRAL_SCRATCH")
    if scratch is None or not os.access(scratch, os.W_OK):
        return tempfile.mkdtemp(prefix="corral-ssh-")
    directory = os.path.join(scratch, ".corral-ssh", hashlib.sha256(client_key.encode()).hexdigest()[:16])
    os.makedirs(directory, mode=0o700, exist_ok=True)
    return directory


def _write(directory: str, name: str, text: str) -> None:
    """Write a file as a whole, since another session of this job may read it."""
    fd, draft = tempfile.mkstemp(dir=directory)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    os.replace(draft, os.path.join(directory, name))


def _variables() -> str:
    """Return the variables of the job, but those that the configuration of sshd cannot hold."""
    kept = {name: text for name, text in os.environ.items() if name not in _SESSIONS_OWN and text.isprintable()}
    escaped = {name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in kept.items()}
    return " ".join(f'"{name}={text}"' for name, text in escaped.items())


def _fail(reason: str) -> NoReturn:
    print(f"corral: {reason}", file=sys.stderr)
    raise SystemExit(NO_SSHD)
