"""The options that describe a job, for `run`, `submit`, `reserve` and the header lines of a script.

By `make declared` from the fields of the model: change those.
"""

from __future__ import annotations

from corral.cli.commands.gpu_count import number_of_gpus
from corral.cli.declaring import DeclaredOptions, flag, number, text, whole


class DeviceFlags(DeclaredOptions):
    """Which GPUs, and how urgently. None and () mean that the flag was not given."""

    gpus: int | str | None = text(
        "--gpus",
        metavar="N",
        help="Number of GPUs: 2; 0.5 for half of one; 0 for none.  [default: 1]",
        parse=number_of_gpus,
    )
    gpu_mem: str | None = text("--gpu-mem", metavar="SIZE", help="GPU memory to grant on each shared GPU: 20G.")
    gpu_cores: str | None = text("--gpu-cores", metavar="PERCENT", help="Percent of each shared GPU's compute: 50.")
    mig: str | None = text("--mig", metavar="PROFILE", help="Run on a MIG slice of this profile: 1g.10gb.")
    share: str | None = text(
        "--share", metavar="MEANS", help="Means of sharing the GPU: mps, mig, timeslice, hook or exclusive."
    )
    split: str | None = text(
        "--split",
        metavar="HOW",
        help="Spread a part over several GPUs: fill (whole GPUs first) or evenly.  [default: fill; with --resource"
        " evenly]",
    )
    resource: list[str] | None = text(
        "--resource",
        metavar="KEY=N,..",
        help="Another system's resource names: cuda.shares=0.5,mem=4g. `corral resources` lists them.",
        many=True,
    )
    min_memory: str | None = text(
        "--min-memory", metavar="SIZE", help="Only GPUs with at least this much memory: 20G (GiB)."
    )
    gpu_model: str | None = text("--gpu-model", metavar="NAMES", help="Only these GPU models: A100,H100.")
    vendor: str | None = text("--vendor", metavar="NAME", help="Only GPUs of this maker: nvidia, amd.")
    min_compute: str | None = text("--min-compute", metavar="X.Y", help="Minimum compute capability: 8.0.")
    min_driver: str | None = text("--min-driver", metavar="X.Y", help="Minimum driver version: 550.54.")
    min_cuda: str | None = text("--min-cuda", metavar="X.Y", help="Minimum CUDA version of the driver: 12.1.")
    label: list[str] | None = text(
        "--label", metavar="K=V", help="Only nodes with this label; may be repeated.", many=True
    )
    prefer: list[str] | None = text(
        "--prefer", metavar="K=V", help="Nodes with this label first, if any fit; may be repeated.", many=True
    )
    node: list[str] | None = text(
        "--node", metavar="NAMES", help="Only this node, or any of these: gpu-01, gpu-[01-03,07].", many=True
    )
    exclude: list[str] | None = text(
        "--exclude", metavar="NAMES", help="Not on these nodes: gpu-01, gpu-[01-03,07].", many=True
    )
    device: list[str] | None = text(
        "--device", metavar="GPU", help="Exactly this GPU: UUID, index or NODE:INDEX; may be repeated.", many=True
    )
    accept_in_use: str | None = text(
        "--accept-in-use", metavar="SIZE", help="Also accept a GPU that processes outside Corral use, if SIZE is free."
    )
    name: str | None = text("--name", metavar="TEXT", help="Name of the job.")
    priority: int | None = whole("--priority", metavar="N", help="Lower numbers run first.  [default: 5]")
    power_limit: int | None = whole(
        "--power-limit",
        metavar="WATTS",
        help="Power limit of each GPU in watts while the job has it: 300. Whole GPUs only.",
    )


class JobFlags(DeviceFlags):
    """The further options of `run`."""

    cpus: float | None = number("--cpus", metavar="N", help="CPU cores.")
    host_memory: str | None = text("--host-memory", metavar="SIZE", help="Host memory (RAM): 16G.")
    disk: str | None = text("--disk", metavar="SIZE", help="Disk of the node: 100G. Counted, not enforced.")
    speed: str | None = text(
        "--speed",
        metavar="MODEL=X,..",
        help="Relative speed on each GPU model, 0 if it cannot run there: v100=1,k80=0.2.",
    )
    checkpoint_signal: str | None = text(
        "--checkpoint-signal",
        metavar="SIG@TIME",
        help="Signal to send before the job is stopped, at its time limit or for another job: USR1@60s, 60 s "
        "before. B:USR1@60s is for its main process alone, S:USR1@60s for all others.",
    )
    notify: str | None = text(
        "--notify",
        metavar="CMD",
        help="Shell command to run once when the job has ended: 'mail -s \"$CORRAL_JOB_NAME $CORRAL_PHASE\" me'.",
    )
    notify_on: str | None = text(
        "--notify-on", metavar="WHAT,..", help="Events to report in your channel: started, done (succeeded), failed."
    )
    gang: int | None = whole(
        "--gang",
        metavar="M",
        help="M members with --gpus each, which start together; the command runs on each, a script on the first.",
    )
    exclusive: bool = flag("--exclusive", help="All GPUs of one node.")
    one_node: bool = flag("--one-node", help="Place all members of the gang on one node.")
    spread: bool = flag("--spread", help="Place each member of the gang on a different node.")
    avoid: list[str] | None = text(
        "--avoid", metavar="NAME", help="Avoid nodes where a job of this name runs; may be repeated.", many=True
    )
    time: str | None = text("--time", metavar="TIME", help="Time limit: 90s, 30m, 2h, 1d12h, 1:30:00.")
    nice: int | None = whole(
        "--nice", metavar="N", help="As in Slurm: 100 raises the priority number by 1 (runs later)."
    )
    retries: int | None = whole(
        "--retries", metavar="N", help="Number of retries after a failure.  [default: set by the site]"
    )
    queue: str | None = text("--queue", metavar="NAME", help="Queue to wait in.  [default: default]")
    project: str | None = text(
        "--project", metavar="NAME", help="Project that the usage counts for.  [default: default]"
    )
    after: list[str] | None = text(
        "--after",
        metavar="[WHAT:]ID",
        help="Start after job ID has succeeded. any:ID: ended; notok:ID: failed; start:ID: started; singleton: "
        "after your other jobs of this name.",
        many=True,
    )
    env: list[str] | None = text(
        "--env",
        metavar="K[=V]",
        help="Set an environment variable; K alone has the value of this shell. May be repeated.",
        many=True,
    )
    workdir: str | None = text("--workdir", metavar="DIR", help="Working directory.  [default: this one]")
    image: str | None = text("--image", metavar="IMAGE", help="Run in a container of this image.")
    volume: list[str] | None = text(
        "--volume",
        metavar="SRC:PATH[:ro]",
        help="Files that the container sees: pvc/NAME, configmap/NAME, secret/NAME or a host's directory; may be "
        "repeated.",
        many=True,
    )
    shm_size: str | None = text("--shm-size", metavar="SIZE", help="Size of the container's /dev/shm.  [default: 64M]")
    network: str | None = text("--network", metavar="NAME", help="Docker's network for the container.")
    user: str | None = text("--user", metavar="UID[:GID]", help="User in the container.  [default: you]")
    pull: str | None = text(
        "--pull", metavar="WHEN", help="When to fetch the image: missing, always, never.  [default: missing]"
    )
    service_account: str | None = text(
        "--service-account", metavar="NAME", help="Service account of the cluster to run as."
    )
    pod_template: str | None = text(
        "--pod-template", metavar="FILE", help="Kubernetes pod template (YAML) for the rest of the pod."
    )
    force: bool = flag("--force", help="Submit even if `corral check` finds that it cannot run.")
    upload: str | None = text(
        "--upload",
        metavar="DIR",
        help="Send this directory to the node and run in it, where the node does not have your files: .",
    )
    upload_exclude: list[str] | None = text(
        "--upload-exclude",
        metavar="PATTERN",
        help="Files of --upload to leave out, as in .corralignore: '*.pt', data/; may be repeated.",
        many=True,
    )
    download: str | None = text(
        "--download", metavar="DIR", help="With --upload: directory in it that comes back when the job has ended: out."
    )
    on_fault: str | None = text(
        "--on-fault",
        metavar="WHAT",
        help="When one of its GPUs falls sick: requeue (stop it, start it on others), checkpoint (signal it "
        "first), leave.",
    )
    checkpoint_every: str | None = text(
        "--checkpoint-every",
        metavar="TIME",
        help="Send the checkpoint signal also this often, to processes that catch it: 10m.",
    )
    checkpoint_dir: str | None = text(
        "--checkpoint-dir",
        metavar="DIR",
        help="Directory of its checkpoints, where the next attempt finds the last: checkpoints/%j.  [default: in "
        "$CORRAL_SCRATCH]",
    )
    movable: bool = flag(
        "--movable",
        help="Allow the job to be stopped and started elsewhere, so that another job finds room (`corral rebalance`).",
    )
    packable: bool = flag(
        "--packable",
        help="Share its GPU with your other jobs of the same program that say so, as many as the site allows; add "
        "--gpu-mem.",
    )


class SubmitFlags(JobFlags):
    """The further options of `submit` and of a script's header."""

    array: str | None = text(
        "--array", metavar="SPEC", help="One job per index: 0-9%2 is ten jobs, two at a time; 0,3,5-7; 0-10:2."
    )
    param: list[str] | None = text(
        "--param",
        metavar="NAME=V,..",
        help="One job per value: lr=0.1,0.01 or seed=0..4; repeated, one per combination. Each has its value as "
        "variable NAME, and in place of {NAME}.",
        many=True,
    )
    zip: bool = flag("--zip", help="Pair the values of --param, not combine them.")
    max_running: int | None = whole("--max-running", metavar="N", help="Run N jobs of the array or sweep at a time.")
    begin: str | None = text(
        "--begin", metavar="WHEN", help="Earliest start: 16:00, now+2hours, tomorrow, 2026-12-01T08:00."
    )
    output: str | None = text("--output", metavar="FILE", help="Write the output to this file, not the log: %x-%j.out.")
    error: str | None = text(
        "--error", metavar="FILE", help="Write standard error to this file, apart from the output."
    )
    input: str | None = text(
        "--input", metavar="FILE", help="Read standard input from this file: train.txt, part-%a.txt."
    )
    open_mode: str | None = text(
        "--open-mode", metavar="MODE", help="Append to these files at each start, or truncate them: append, truncate."
    )
    hold: bool = flag("--hold", help="Keep the job waiting until `corral release`.")
