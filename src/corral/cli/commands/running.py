"""Commands that run work, and keep GPUs for it."""

from __future__ import annotations

from corral.cli.commands.job_options import DeviceFlags, JobFlags, SubmitFlags
from corral.cli.declaring import DeclaredCommand, flag, text, whole


class RunCommand(
    DeclaredCommand,
    runs="jobs.run.run",
    takes=JobFlags,
    follows=True,
    examples=(
        "corral run --gpus 2 --min-memory 40G -- python train.py",
        "corral run -- python generate.py < prompts.txt",
        "corral run --gpus 1 --pty -- bash",
        "corral run --gpus 1 --forward 8888 -- jupyter lab --no-browser",
    ),
):
    """Run a command on GPUs that nobody else uses, and wait for it.

    Standard output shows the command's output and errors, as in the log. Standard error shows the job's id, and the
    reason while it waits.

    Ctrl-C interrupts the job (SIGINT); while it still waits, it cancels it. A second Ctrl-C cancels it (SIGTERM, and
    SIGKILL if that does not end it in time), a third returns at once. SIGTERM cancels it, too.

    Input from a file or a pipe is passed on to the command; from a terminal it is not. A job that has read input is
    not run again: the input cannot be given twice. If this terminal closes, a job without input, or with all of it,
    runs on: `corral logs -f` shows its output again.

    With --pty the command has this terminal, and every key, Ctrl-C too, is for it. Ctrl-] three times within a second
    ends the job; so does closing this terminal.

    With --forward a port of the job comes to this machine, as with `corral forward`. Its link is shown on standard
    error once the job listens there.

    In a shell with a reservation (`corral reserve`) it runs at once on the reserved GPUs, in place of this command and
    not as a job. Two such commands get the same GPU only if both name it with --device.

    Exits with the command's exit code; 128+N after signal N; 126 or 127 if it cannot be started; 124 at its time limit;
    125 if Corral failed, or the job was lost or never ran; 2 for invalid flags.
    """

    flags: JobFlags
    words: list[str] = text(metavar="[--] COMMAND...", help="The command and its arguments.", required=True, many=True)
    dry_run: bool = flag("--dry-run", help="Submit nothing; show whether and where it would start now.")
    pty: bool = flag("--pty", help="Give the command this terminal: for a shell, a debugger, an editor.")
    forward: list[str] | None = text(
        "--forward", metavar="[LOCAL:]PORT", help="Bring this TCP port of the job to this machine.", many=True
    )
    no_reservation: bool = flag("--no-reservation", help="Queue a job even in a shell that has a reservation.")


class SubmitCommand(
    DeclaredCommand,
    runs="direct.submit_command.submit_command",
    takes=SubmitFlags,
    follows=True,
    examples=(
        "corral submit --gpus 2 --time 2h -- python train.py",
        "corral submit --array 0-9%2 train.sh",
    ),
):
    """Queue a script or a command, and print the job's id.

    A script may give flags in lines at its top: #CORRAL --gpus 2 --time 2h. Its #SBATCH lines are read, too; options
    that have no meaning here are ignored and listed. A script with #SBATCH lines gets SLURM_JOB_ID,
    SLURM_ARRAY_TASK_ID and other SLURM_ variables. In a gang the script runs on the first member, and its srun runs
    commands on all. Flags on the command line override those in the script. The script is copied now: later changes
    to it apply to later jobs. A command after -- is not copied, nor are other files that a script or a command
    reads. With - the script is read from standard input.

    Output goes to the job's log (see `corral logs`), or to the files given with --output and --error.
    """

    flags: SubmitFlags
    words: list[str] = text(
        metavar="SCRIPT... | -- COMMAND...",
        help="A script with its arguments, or a command after --.",
        required=True,
        many=True,
    )
    dry_run: bool = flag("--dry-run", help="Submit nothing; show whether and where it would start now.")
    json: bool = flag("--json", help='Print JSON: {"id": ...}.')


class ExecCommand(
    DeclaredCommand,
    runs="jobs.execute.execute",
    follows=True,
    examples=(
        "corral exec 17 -- nvidia-smi",
        "corral exec 17",
        "corral exec --rank 1 --pty 17 -- top",
    ),
):
    """Run a command inside a running job.

    It runs on the job's node, as the job's user, with the job's environment, working directory, GPUs and limits. The
    job goes on as before, and nothing is added to its log; the user and the command are recorded (`corral show`).
    Without a command a shell runs, at this terminal if standard input is one.

    Input, output and errors are passed on as they are. With --pty, and for a shell, the command has this terminal, and
    every key is for it: Ctrl-] three times within a second ends it.

    The command ends with the job, or with `corral exec`: Ctrl-C ends it and all that it has started. Leave nothing
    running in the background.

    Only the job's user and administrators may do this. Exits with the command's exit code; 128+N after signal N; 126
    or 127 if it cannot be started; 125 if Corral failed or the job does not run.
    """

    job_id: str = text(metavar="ID|NAME", help="Job id, or a name: the newest job with it.", required=True)
    words: list[str] | None = text(
        metavar="[--] [COMMAND...]", help="The command and its arguments; none: a shell.", many=True
    )
    rank: int = whole("--rank", help="The member of a gang.", default=0, least=0)
    pty: bool = flag("--pty", help="Give the command this terminal: for a debugger, an editor.")


class FetchCommand(
    DeclaredCommand,
    runs="jobs.files.fetch",
    examples=("corral fetch 17", "corral fetch 17 results-17 --force"),
):
    """Fetch the files that a job has left.

    These are in the directory of its --download. They are written to the directory of that name here, or to DIR.
    Files that are the same here are left alone. A file that is newer here is kept and named, unless --force. Files
    are kept for two weeks, or as long as the site says (upload_keep in its settings).

    Exits with 1 if some files were not fetched.
    """

    job_id: str = text(metavar="ID|NAME", help="Job id, or a name: the newest job with it.", required=True)
    directory: str | None = text(metavar="[DIR]", help="Where to write them.")
    rank: int = whole("--rank", metavar="N", help="The member of a gang.", default=0, least=0)
    force: bool = flag("--force", help="Also replace files that are newer here.")
    json: bool = flag("--json", help="Print JSON.")


class ForwardCommand(
    DeclaredCommand,
    runs="reaching.forward.forward",
    examples=("corral forward 17 8888", "corral forward 17 9000:8888 6006"),
):
    """Bring ports of a running job to this machine.

    Prints the link of each port once a process of the job listens there, and runs until the job ends or you press
    Ctrl-C. The port here is the same, or a free one if that is taken; LOCAL:PORT names another.

    Connections are made by the job's user from inside the job, and only to ports on which the job itself listens. Here
    they come in on the loopback, and only from your own processes.

    The job needs a python3 on its PATH. Only the job's user and administrators may do this.
    """

    job_id: str = text(metavar="ID|NAME", help="Job id, or a name: the newest job with it.", required=True)
    ports: list[str] = text(metavar="[LOCAL:]PORT...", help="TCP ports of the job.", required=True, many=True)
    rank: int = whole("--rank", help="The member of a gang.", default=0, least=0)


class SshCommand(
    DeclaredCommand,
    runs="reaching.ssh.ssh",
    follows=True,
    examples=(
        "corral ssh 17",
        "corral ssh --config 17 >> ~/.ssh/config",
        "corral ssh 17 nvidia-smi",
    ),
):
    """Use OpenSSH in a running job.

    A shell, scp, `ssh -L`, an editor such as VS Code: each connection is an sshd inside the job.

    --config prints an entry for ~/.ssh/config: with it `ssh corral-17` and `scp corral-17:file .` work. The sshd is
    that of the job's host. It runs as the job's user, with its variables, GPUs and limits, and ends with the job. All
    that a connection has started ends with it.

    Keys are made for this job in ~/.ssh/corral, and removed after its end. The job's host needs openssh-server, and the
    job a python3 on its PATH; no sshd need run there. Only the job's user and administrators may do this.
    """

    job_id: str = text(metavar="ID|NAME", help="Job id, or a name: the newest job with it.", required=True)
    words: list[str] | None = text(metavar="[--] [COMMAND...]", help="What ssh is to run; none: a shell.", many=True)
    rank: int = whole("--rank", help="The member of a gang.", default=0, least=0)
    config: bool = flag("--config", help="Print the entry for ~/.ssh/config, and connect to nothing.")
    proxy: bool = flag("--proxy", help="Be the ProxyCommand of that entry.")


class WaitCommand(
    DeclaredCommand, runs="direct.wait_for_jobs.wait_for_jobs", examples=("corral wait 17 18 --timeout 2h",)
):
    """Wait until jobs have ended. On a terminal, a line shows how many have.

    Exits with 0 if all succeeded, 1 if any did not, 124 if --timeout passed first.
    """

    ids: list[str] = text(
        metavar="ID|NAME...",
        help="Job ids or names. An array's id stands for all its jobs, '17_[3-9]' for some of them.",
        required=True,
        many=True,
    )
    timeout: str | None = text("--timeout", metavar="TIME", help="Stop waiting after this time: 30s, 2h.")


class ReserveCommand(
    DeclaredCommand,
    runs="jobs.reserve.reserve",
    takes=DeviceFlags,
    examples=('eval "$(corral reserve --gpus 1 --for 2h)"',),
):
    """Reserve GPUs for interactive work.

    Prints the variables that make a shell use the GPUs: evaluate them, as in the example. `corral run` in that shell
    then runs at once, on all of them or on those that --gpus and --device ask for, and not as a job.

    A reservation waits its turn like any job. It ends with `corral release ID`, when the time is up, or when the login
    session in which you typed this ends (logged out, window closed).
    """

    flags: DeviceFlags
    duration: str = text("--for", metavar="TIME", help="How long to keep them: 30m, 2h.", required=True)
    detach: bool = flag("--detach", help="Keep them until the time is up, even after this session ends.")


class AdoptCommand(DeclaredCommand, runs="jobs.reserve.adopt", examples=("corral adopt 4213 --name llama-sft",)):
    """Make a running process a job, so that it keeps its GPUs.

    The process runs on unchanged, and nobody else gets its GPUs until it ends.
    """

    pid: int = whole(metavar="PID", help="A running process that uses GPUs.", required=True, least=1)
    name: str | None = text("--name", metavar="TEXT", help="Name of the job.")
    priority: int | None = whole("--priority", metavar="N", help="Lower numbers run first.")
    json: bool = flag("--json", help='Print JSON: {"id": ...}.')
