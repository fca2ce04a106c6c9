"""`corral ssh`: OpenSSH into a running job."""

import os
import shlex
import shutil
import signal
import sys
from types import FrameType

from corral.cli.commands import running
from corral.cli.direct.named_job import job_meant
from corral.cli.jobs.execute import CommandInput
from corral.cli.jobs.follower import CORRAL_FAILED, SIGNALLED
from corral.cli.jobs.input_stream import InputStream, StandardInput
from corral.cli.jobs.interrupts import interruptible, pass_on
from corral.cli.reaching.job_keys import JobKeys, remove_old
from corral.cli.reaching.job_program import KEPT_BYTES, ProgramThen, ending_of
from corral.cli.screen import exit_code_of, say, write_lines
from corral.client import Client, JobRow
from corral.client.connecting.transport import Transport
from corral.client.inner_process import STDOUT
from corral.core.model.errors import BackendFailed, CorralError, NotFound, Refused
from corral.forwarding.sent_program import SSHD, program, words_of

_OWN_FLAGS = ("CORRAL_HOME", "CORRAL_URL", "CORRAL_CA_FILE", "CORRAL_INSECURE")
"""Variables that lead to the server. A token is a secret, and is not among them."""


class _Left(Exception):
    """A signal ended this command."""


def _leave(number: int, frame: FrameType | None) -> None:
    raise _Left(number)


def ssh(given: running.SshCommand) -> int:
    """Run `corral ssh`."""
    os.umask(0o077)
    try:
        if given.proxy and given.config:
            raise Refused("--proxy and --config exclude each other", field="--proxy")
        with Client() as client:
            job = client.jobs.get(job_meant(Transport(client.address), given.job_id, lives=True))
            keys = JobKeys(str(client.address), job.id, _alias(job.id, given.rank))
            if job.ended:
                keys.remove()
                raise Refused(f"job {job.id} has ended ({job.phase.lower()})", field="job")
            remove_old(str(client.address), lambda job_id: _has_ended(client, job_id))
            keys.make()
            if given.proxy:
                return _be_proxy(client, job, given.rank, keys)
        entry = _entry(job, given.rank, keys)
        if given.config:
            write_lines(*entry)
            return 0
        return _become_ssh(keys, entry, given.words or [])
    except CorralError as error:
        say(str(error))
        return exit_code_of(error, otherwise=CORRAL_FAILED)
    except _Left as left:
        return SIGNALLED + int(left.args[0])


def _alias(job_id: str, rank: int) -> str:
    return f"corral-{job_id}-{rank}" if rank else f"corral-{job_id}"


def _has_ended(client: Client, job_id: str) -> bool:
    try:
        return client.jobs.get(job_id).ended
    except NotFound:
        return True
    except CorralError:
        return False


def _entry(job: JobRow, rank: int, keys: JobKeys) -> list[str]:
    """Return the lines of an entry for ~/.ssh/config."""
    corral = os.path.abspath(shutil.which(sys.argv[0]) or sys.argv[0])
    variables = [f"{name}={os.environ[name]}" for name in _OWN_FLAGS if os.environ.get(name)]
    proxy = [*(["env", *variables] if variables else []), corral, "ssh", "--proxy", "--rank", str(rank), job.id]
    return [
        f"Host {keys.alias}",
        f"    HostName {keys.alias}",
        f"    User {job.user}",
        f"    IdentityFile {_quoted(str(keys.key))}",
        "    IdentitiesOnly yes",
        f"    HostKeyAlias {keys.alias}",
        f"    UserKnownHostsFile {_quoted(str(keys.known_hosts))}",
        "    GlobalKnownHostsFile none",
        "    StrictHostKeyChecking yes",
        "    UpdateHostKeys no",
        "    ControlMaster no",
        "    ControlPath none",
        f"    ProxyCommand {shlex.join(proxy).replace('%', '%%')}",
    ]


def _quoted(path: str) -> str:
    return '"' + path.replace("%", "%%") + '"'


def _become_ssh(keys: JobKeys, entry: list[str], words: list[str]) -> int:
    """Replace this process by an `ssh` into the job, whatever the user's own configuration says."""
    config = keys.directory / "config"
    config.write_text("\n".join(entry) + "\n")
    if words and words[0] == "--":
        words = words[1:]
    try:
        os.execvp("ssh", ["ssh", "-F", str(config), keys.alias, *words])
    except OSError as error:
        raise BackendFailed(f"ssh cannot be run ({error.strerror}): install openssh-client") from None


def _be_proxy(client: Client, job: JobRow, rank: int, keys: JobKeys) -> int:
    """Pass the bytes of one SSH connection on to an `sshd` in the job, until either side ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    errors = b""
    process = client.jobs.begin_exec(job.id, words_of("corral ssh"), rank=rank, stdin=True)
    sent = program(SSHD, keys.of_host, keys.of_user)
    with interruptible(), InputStream(CommandInput(client, process), ProgramThen(sent, StandardInput())):
        try:
            for stream, data in process.output():
                if stream == STDOUT:
                    pass_on(stream, data)
                else:
                    errors = (errors + data)[-KEPT_BYTES:]
        except BrokenPipeError:
            return SIGNALLED + signal.SIGPIPE
    if process.exit_code != 0 and (errors or process.message is not None or process.exit_code != 255):
        say(ending_of(process, errors))
    return process.exit_code or 0
