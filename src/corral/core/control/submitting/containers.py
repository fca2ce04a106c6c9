"""The containers of jobs, as their site completes and allows them."""

import posixpath
import re
from dataclasses import replace

from corral.core.control.submitting.kept_scripts import in_container
from corral.core.control.submitting.submission_checks import check_checkpoint, check_checkpoints_made
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal, Target
from corral.core.model.jobs.container import Container, check_container, is_below
from corral.core.model.jobs.job import JobKind, Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.placement_rules import PlacementRules, Toleration
from corral.core.ports.containers import Containers

IMAGES_DIRECTORY = "/"
"""If a job has this working directory, or none, its container begins in the working directory of the image."""

NO_MPS = (
    "a container cannot be given a part of a GPU that is shared by MPS, because the daemon is the host's; "
    "ask for a whole GPU, such as --gpus 1, or run the job without --image"
)

_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
"""Names of variables that every engine of containers takes."""


def with_container(submission: Submission, containers: Containers | None) -> Submission:
    """Return the submission with its container completed by the site, without the parts of its shell that are useless
    there.

    Raises Refused, Forbidden for containers that the site does not run.
    """
    if containers is None or (submission.container is None and not containers.every_job):
        if submission.container is not None:
            raise Refused("image: this server runs no containers; remove --image", field="image")
        return submission
    if submission.kind is not JobKind.RUN:
        raise Refused(
            "kind: a reservation or an adopted process cannot run in a container; submit a job, such as: corral "
            "run --image IMAGE -- sleep 1h",
            field="kind",
        )
    if submission.container is not None:
        check_container(submission.container)
    _refuse_what_only_processes_have(submission)
    _refuse_checkpoints(submission, submission.container or Container(), containers)
    submission = in_container(submission)
    inherited = frozenset(submission.inherited_env)
    env = {name: value for name, value in submission.env.items() if name not in inherited}
    for name in env:
        if _VARIABLE.fullmatch(name) is None:
            raise Refused(f"env: {name!r:.60} cannot be a variable of a container; rename it", field="env")
    container = containers.settle(submission.container, members=submission.request.gang_size)
    return replace(
        submission,
        container=container,
        request=_tolerating(submission.request, containers.tolerations(container, submission.request)),
        env=env,
        inherited_env=(),
        workdir=IMAGES_DIRECTORY if submission.inherited_workdir else submission.workdir,
        inherited_workdir=False,
        rlimits=(),
    )


def beside_mps(request: Request, *, packable: bool = False) -> Request:
    """Return the request for a container that cannot reach an MPS daemon.

    A part of a device, as a packable job has it, is then shared by time slices, unless the request names another means.
    Raises Refused if the request demands MPS.
    """
    if (request.whole and not packable) or not request.devices or request.mig_profile is not None:
        return request
    if request.means is Means.HOOK:
        raise Refused("--share hook: the library is on the host, and no container has it", field="means")
    if request.means is Means.MPS:
        raise Refused(f"--share mps: {NO_MPS}", field="means")
    return request if request.means is not None else replace(request, means=Means.TIMESLICE)


def _tolerating(request: Request, tolerations: tuple[Toleration, ...]) -> Request:
    if not tolerations:
        return request
    rules = request.rules or PlacementRules()
    both = tuple(dict.fromkeys((*rules.tolerations, *tolerations)))
    return replace(request, rules=replace(rules, tolerations=both))


def _refuse_what_only_processes_have(submission: Submission) -> None:
    for field, path in (("output", submission.output), ("error", submission.error)):
        if path is not None:
            raise Refused(
                f"{field}: a container's output goes to the job's log; remove --{field} and use `corral logs`",
                field=field,
            )
    if submission.input is not None:
        raise Refused(
            "input: a container cannot read files of its host; put the input in a volume, and read it there",
            field="input",
        )
    if submission.terminal is not None:
        raise Refused("terminal: a container gets no terminal here; leave out --pty", field="terminal")
    if submission.stdin:
        raise Refused(
            "stdin: a container gets no input here; put the input in a volume, or run it with < /dev/null",
            field="stdin",
        )
    if submission.script and submission.request.gang_size > 1:
        raise Refused(
            "the script of a gang starts its work with srun, which containers do not have; submit the "
            "command that each member runs: corral submit --gang 4 --image IMAGE -- torchrun ...",
            field="gang_size",
        )


def _refuse_checkpoints(submission: Submission, container: Container, containers: Containers) -> None:
    """Raise Refused for signals that do not reach a container, and for a directory that its host does not see."""
    word, grace_s = submission.checkpoint_signal, submission.checkpoint_grace_s
    # These are checked only here: the other parts of a submission are checked once it has its container.
    check_checkpoint(word, grace_s, submission.time_limit_s)
    check_checkpoints_made(submission)
    told = None if word is None else CheckpointSignal.parse(word)
    if not containers.checkpoints:
        _refuse_in_pods(submission, told)
    if told is not None and told.target is Target.OTHERS:
        raise Refused(
            f"checkpoint_signal: Docker sends signals to the main process of a container alone; write "
            f"{told.name}@{grace_s:g}s in place of {word}",
            field="checkpoint_signal",
        )
    if (pattern := submission.checkpoint_dir) is not None:
        path = posixpath.join(submission.workdir, pattern)
        if not is_below(path, [one.target for one in container.volumes if one.source == one.target]):
            raise Refused(
                f"checkpoint_dir: {path:.200} is in no volume that the host has under the same path; add --volume "
                "DIR:DIR, or leave it out: then the checkpoints are in the job's scratch",
                field="checkpoint_dir",
            )


def _refuse_in_pods(submission: Submission, told: CheckpointSignal | None) -> None:
    if told is not None and told.name != "TERM":
        raise Refused(
            f"checkpoint_signal: only SIGTERM can ask a pod to save its work; write "
            f"TERM@{submission.checkpoint_grace_s:g}s in place of {submission.checkpoint_signal}",
            field="checkpoint_signal",
        )
    if submission.checkpoint_every_s is not None:
        raise Refused(
            "checkpoint_every: a pod gets no signal but that of its end; let the program save its work by itself",
            field="checkpoint_every_s",
        )
    if submission.checkpoint_dir is not None:
        raise Refused(
            "checkpoint_dir: Corral does not see the files of a pod; put its checkpoints in a volume, and let the "
            "program look for the last one there",
            field="checkpoint_dir",
        )
