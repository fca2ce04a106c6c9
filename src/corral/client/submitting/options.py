"""The options of a job by name and type, for type checkers, `help` and messages. By `make declared` from the model."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from corral.client.submitting.arguments import JobId
    from corral.client.submitting.sweep_values import Values


class RequestOptions(TypedDict, total=False):
    """The options of a job besides its command. Each is a flag of `corral run` or `submit` of the same name.

    Keys:
        gpus: Number of GPUs, 1 by default; 0 for none, 0.5 for half of one, 1.2 spread over several if need be.
        gpu_mem: Memory to grant on each GPU: "20G"; without `gpus` it also decides the share.
        min_memory: Only GPUs with at least this much memory: 20G (GiB).
        gpu_model: Only these GPU models, as a list or with commas: "A100,H100".
        min_compute: Minimum compute capability: 8.0.
        min_driver: Minimum driver version: 550.54.
        min_cuda: Minimum CUDA version of the driver: 12.1.
        device: UUIDs of exactly the GPUs to use.
        label: Labels that the node must have: {"cuda-major-version": "12"}.
        cpus: CPU cores, also fractions.
        host_memory: Host memory (RAM): 16G.
        gang: Members that start together or not at all, each with `gpus` whole GPUs. The command runs once for
            each member, also if several are on one node; RANK, LOCAL_RANK and WORLD_SIZE tell them apart.
        one_node: Place all members of the gang on one node.
        spread: Place each member of the gang on a different node.
        avoid: Names of jobs that must not run on the same node.
        accept_in_use: Also accept a GPU that processes outside Corral use, if SIZE is free.
        split: Spreading of a share that needs several GPUs: "fill" takes whole GPUs first, "evenly" equal
            parts. By default the site's setting, else "fill", and "evenly" with `resource`.
        gpu_cores: Percent of each shared GPU's compute: 50.
        mig: A MIG slice of this profile instead of a GPU: "1g.10gb"; `gpus` counts slices then.
        share: Means of sharing the GPU: mps, mig, timeslice, hook or exclusive.
        prefer: Labels that the node should have if possible; nodes with more of them come first.
        disk: Disk of the node: 100G. Counted, not enforced.
        node: The node to run on, or several of which any will do: "gpu-01", "gpu-[01-03,07]", ["gpu-01",
            "gpu-02"].
        exclude: Nodes not to run on, written the same way.
        vendor: Only GPUs of this maker: "nvidia", "amd"; by default the site's `default_vendor`.
        power_limit: Power limit of each GPU in watts while the job has it: 300. Whole GPUs only.
        image: Container image to run in, such as "repo/train:1". The container has the `env` and `workdir` that
            are given, and not those of this process.
        volume: Files that the container sees, "SRC:PATH" or "SRC:PATH:ro"; SRC is a directory of the host (if
            the site allows it), pvc/NAME, configmap/NAME or secret/NAME.
        service_account: Service account of the cluster to run as.
        pod_template: A file with a Kubernetes pod template (YAML or JSON), or the template itself, for the
            rest.
        shm_size: Size of the container's /dev/shm.  [default: 64M]
        network: Docker's network for the container, among those that the site allows; by default Docker's own
            default.
        user: User in the container, if the site allows another than you.
        pull: When its image is fetched: "missing", "always" or "never".
        max_running: How many jobs of an array or of `params` may run at once.
        zip: Pair the values of `params` instead, the first of all, the second of all, and so on.
        upload: Directory to send to the node, in which the job runs. Give it where nodes do not have your
            files.
        upload_exclude: Patterns of files of `upload` to leave out, as in a .corralignore: ["*.pt", "data/"].
        name: The job's name.
        queue: Queue to wait in.  [default: default]
        project: Project that the usage counts for.  [default: default]
        time: Time limit: "2h", "1:30:00" or "1-12:00:00" as in Slurm, or seconds as a number.
        after: Jobs that must succeed first: one or a list, by id or handle. Other conditions: "any:17" (ended),
            "notok:17" (failed), "start:17" (started), "corr:17" (same array element), "singleton";
            alternatives: "17?any:18".
        begin: Earliest start: 16:00, now+2hours, tomorrow, 2026-12-01T08:00.
        output: Files for standard output instead of the log, relative to the working directory: "train-%j.out"
            (%j id, %x name, %A array, %a element, %u user).
        error: As `output`; without `error`, both go to `output`.
        open_mode: "append" to these files or "truncate" them at each start; by default only the first start
            truncates.
        workdir: Working directory.  [default: this one]
        checkpoint_signal: Signal to send before the job is stopped, for another job or at its time limit:
            "USR1@60s", 60 s before and to all of its processes; "B:USR1@60s" to the main one alone,
            "S:USR1@60s" to all others.
        on_fault: What to do when one of the job's GPUs falls sick: "requeue" stops it and starts it on others,
            "checkpoint" sends its checkpoint signal first, "leave" lets it run. By default the queue's setting,
            else "requeue" for a job with retries or checkpoints and "leave" for others.
        checkpoint_every: Send the checkpoint signal also this often, to processes that catch it: "10m", or
            seconds as a number.
        checkpoint_dir: Directory of its checkpoints, where the next attempt finds the last, named as `output`
            is; without it a job with a checkpoint signal has one in its scratch directory.
        speed: Relative speed on each GPU model, 0 if it cannot run there: v100=1,k80=0.2.
        movable: Whether the job may be stopped and started elsewhere, so that another job finds room.
        packable: Whether the job may share its GPU with your other jobs of the same program that say so, as
            many as the site allows. It needs `gpu_mem`, or earlier runs whose memory was measured; else it has
            a GPU alone.
        notify: Shell command to run once when the job has ended for good (of an array, when all its jobs have),
            as you. CORRAL_PHASE, CORRAL_EXIT_CODE, CORRAL_REASON and CORRAL_LOG tell it how.
        notify_on: Events to report in your channel: "started", "done", "failed", or a list of these.
        input: File to read standard input from, named the same way; without one it is empty.
        download: With `upload`, the directory in it that comes back when the job has ended: "out".
        priority: Lower numbers run first; None is the site's default.
        retries: Number of retries after a failure.  [default: set by the site]
        env: Variables to set besides those of this process: {"SEED": 5}; None removes one.
        array: Indices and how many may run at once: "0-9%2", "0,3,5-7", "0-10:2", range(10).
        hold: Keep the job waiting until `corral release`.
        resource: A mapping of the same with another system's resource names: {"cuda.shares": "0.5"}; `cpu` and
            `mem` are those of the host.
        force: Submit even if `corral check` finds that it cannot run.
        exclusive: All GPUs of one node (in a gang, of one node per member), in place of `gpus`.
        nice: As for sbatch(1), in place of priority: 100 is one priority step behind the default.
        params: A job for each combination of these values: {"lr": [0.1, 0.01], "seed": range(5)}. Each finds
            its values in its environment, and in place of {lr} in command, name, output, error, input and
            workdir. Text is read as on the command line: "0.1,0.01", "0..4"; a number is one value.
    """

    gpus: int | float | str | None
    gpu_mem: str | None
    min_memory: str | None
    gpu_model: str | Sequence[str] | None
    min_compute: str | float | None
    min_driver: str | None
    min_cuda: str | int | None
    device: str | Sequence[str] | None
    label: Mapping[str, str]
    cpus: float | None
    host_memory: str | None
    gang: int | None
    one_node: bool
    spread: bool
    avoid: str | Sequence[str] | None
    accept_in_use: str | None
    split: str | None
    gpu_cores: str | float | None
    mig: str | None
    share: str | None
    prefer: Mapping[str, str]
    disk: str | None
    node: str | Sequence[str] | None
    exclude: str | Sequence[str] | None
    vendor: str | None
    power_limit: int | None
    image: str | None
    volume: str | Sequence[str] | None
    service_account: str | None
    pod_template: str | os.PathLike[str] | Mapping[str, Any] | None
    shm_size: str | None
    network: str | None
    user: str | None
    pull: str | None
    max_running: int | None
    zip: bool
    upload: str | os.PathLike[str] | None
    upload_exclude: str | Sequence[str] | None
    name: str | None
    queue: str | None
    project: str | None
    time: str | float | None
    after: "JobId | Iterable[JobId]"
    begin: str | float | None
    output: str | os.PathLike[str] | None
    error: str | os.PathLike[str] | None
    open_mode: str | None
    workdir: str | os.PathLike[str] | None
    checkpoint_signal: str | None
    on_fault: str | None
    checkpoint_every: str | float | None
    checkpoint_dir: str | os.PathLike[str] | None
    speed: str | Mapping[str, float] | None
    movable: bool
    packable: bool
    notify: str | None
    notify_on: str | Sequence[str] | None
    input: str | os.PathLike[str] | None
    download: str | None
    priority: int | None
    retries: int | None
    env: Mapping[str, str | float | None]
    array: str | Iterable[int] | None
    hold: bool
    resource: Mapping[str, str | int | float]
    force: bool
    exclusive: bool
    nice: int | None
    params: "Mapping[str, Values] | None"
