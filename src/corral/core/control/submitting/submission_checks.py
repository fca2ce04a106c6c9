"""Checks of submissions that hold on any site. `site_rules` and the planner check the limits of this site."""

import resource
from collections import Counter
from math import isfinite

from corral.core.control.submitting.kept_scripts import check_script
from corral.core.control.submitting.rule_checks import check_rules
from corral.core.control.submitting.sweeps import check_sweep, check_text
from corral.core.control.submitting.uploads import check_upload
from corral.core.model.devices.host_list import MOST_HOSTS
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs import checkpoint_signal
from corral.core.model.jobs.array_indices import MAX_ARRAY_SIZE
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.dependency import clauses_of
from corral.core.model.jobs.job import (
    MAX_BEGIN_AT,
    MAX_CHECKPOINT_EVERY_S,
    MAX_CHECKPOINT_GRACE_S,
    MAX_DEVICES,
    MAX_LABELS,
    MAX_NAME_LENGTH,
    MAX_SPEEDS,
    MAX_TIME_LIMIT_S,
    JobKind,
    Request,
)
from corral.core.model.jobs.notification import MAX_COMMAND_LENGTH
from corral.core.model.jobs.output import check_pattern, names_each_element
from corral.core.model.jobs.site_faults import OnFault
from corral.core.model.jobs.submission import MAX_INDEX, ArraySpec, Submission
from corral.core.model.units import MILLI_PER_DEVICE, SHARE_QUANTUM_MILLI, format_duration
from corral.core.model.view import View
from corral.declared.field_limits import between, check_lengths, check_ranges

MAX_ENV_CHARACTERS = 4 * 1024 * 1024

_MOST_NOTED = 3
_LIMITS = frozenset(name.removeprefix("RLIMIT_") for name in dir(resource) if name.startswith("RLIMIT_"))


def check(submission: Submission) -> None:
    """Raise Refused for an invalid submission, with the field and acceptable values."""
    request = submission.request
    if submission.kind is JobKind.RUN and not submission.command:
        raise Refused(
            "the command is missing; write it after --, such as: corral run -- python train.py", field="command"
        )
    if submission.command and not submission.command[0]:
        raise Refused("command[0] is empty; give the name or the path of a program", field="command[0]")
    if submission.kind is JobKind.RESERVE and submission.command:
        raise Refused("a reservation runs no command; submit a job instead", field="command")
    if submission.kind is not JobKind.RUN and request.devices == 0:
        raise Refused("gpus: a reservation needs at least 1 GPU", field="gpus")
    _check_request(request)
    _check_gang(request)
    if submission.packable:
        _check_packable(submission)
    _check_speeds(submission.speeds)
    check_ranges(submission)
    for field, word in (("name", submission.name), ("queue", submission.queue), ("project", submission.project)):
        check_word(word, field)
    if submission.time_limit_s is not None:
        check_time_limit(submission.time_limit_s)
    if submission.begin_at is not None and not 0 <= submission.begin_at <= MAX_BEGIN_AT:
        raise Refused(
            f"begin_at: {submission.begin_at:g} is not a begin time; give Unix seconds from 0 to {MAX_BEGIN_AT:g}",
            field="begin_at",
        )
    check_checkpoint(submission.checkpoint_signal, submission.checkpoint_grace_s, submission.time_limit_s)
    if submission.on_fault is OnFault.CHECKPOINT and submission.checkpoint_signal is None:
        raise Refused(
            "on_fault: checkpoint needs a signal to send; add --checkpoint-signal USR1@60s, or use requeue",
            field="on_fault",
        )
    check_checkpoints_made(submission)
    clauses_of(submission.after)
    check_notify(submission.notify)
    _check_output(submission)
    _check_input(submission)
    check_script(submission)
    _check_surroundings(submission)
    check_upload(submission)
    if submission.array is not None:
        _check_array(submission.array)
        check_text([submission])
    check_sweep(submission, MAX_NAME_LENGTH)
    check_lengths(submission)


def check_checkpoint(signal: str | None, grace_s: float, time_limit_s: float | None) -> None:
    """Raise Refused for an invalid signal, or for a grace that does not fit."""
    if signal not in (None, *checkpoint_signal.WORDS):
        raise Refused(
            f"checkpoint_signal: {signal!r:.40} is not allowed; use one of {', '.join(checkpoint_signal.NAMES)}, "
            "with B: before it for the main process alone, or S: for all others",
            field="checkpoint_signal",
        )
    if not 0 < grace_s <= MAX_CHECKPOINT_GRACE_S:
        raise Refused(
            f"checkpoint_grace_s: {grace_s:g} is not allowed; it must be above 0 and at most "
            f"{MAX_CHECKPOINT_GRACE_S:g} s",
            field="checkpoint_grace_s",
        )
    if signal is not None and time_limit_s is not None and time_limit_s <= grace_s:
        raise Refused(
            f"checkpoint_signal: {signal} is sent {format_duration(grace_s)} before the time limit, and that is only "
            f"{format_duration(time_limit_s)}; give more time, or shorten the notice, as in "
            f"{signal}@{max(1, int(time_limit_s / 2))}s",
            field="checkpoint_signal",
        )


def check_checkpoints_made(submission: Submission) -> None:
    """Raise Refused for an interval without a signal that a program survives, or for a directory of several jobs."""
    every_s, signal, pattern = submission.checkpoint_every_s, submission.checkpoint_signal, submission.checkpoint_dir
    if every_s is not None and not 1 <= every_s <= MAX_CHECKPOINT_EVERY_S:
        raise Refused(
            f"checkpoint_every: {every_s:g} s is not an interval; it must be from 1 s to "
            f"{format_duration(MAX_CHECKPOINT_EVERY_S)}",
            field="checkpoint_every_s",
        )
    if every_s is not None and signal is None:
        raise Refused(
            "checkpoint_every: the job names no signal to send; add --checkpoint-signal USR1@60s",
            field="checkpoint_every_s",
        )
    if every_s is not None and not CheckpointSignal.parse(signal or "").repeats:
        raise Refused(
            f"checkpoint_every: {signal} commonly ends a program, and this signal is for one that goes on; write "
            f"--checkpoint-signal USR1@{submission.checkpoint_grace_s:g}s",
            field="checkpoint_every_s",
        )
    if pattern is None:
        return
    check_pattern(pattern, "checkpoint_dir")
    if submission.array is not None and not names_each_element(pattern):
        raise Refused(
            f"checkpoint_dir: all jobs of the array would share {pattern}; add %a, the index of each, as in "
            f"{pattern.rstrip('/')}/%a",
            field="checkpoint_dir",
        )


def check_word(word: str, field: str) -> None:
    """Raise Refused for a word that cannot be the name of a job, a queue or a project."""
    if len(word) > MAX_NAME_LENGTH or not word.isprintable():
        raise Refused(
            f"{field}: {word!r:.60} is not allowed; use at most {MAX_NAME_LENGTH} printable characters", field=field
        )


def check_time_limit(seconds: float) -> None:
    """Raise Refused for an invalid time limit."""
    if not 0 < seconds < MAX_TIME_LIMIT_S:
        raise Refused(
            f"time_limit_s: {seconds:g} is not a time limit; it must be above 0 and below "
            f"{MAX_TIME_LIMIT_S:g} (leave it out for no limit)",
            field="time_limit_s",
        )


def check_notify(command: str | None) -> None:
    """Raise Refused for an invalid shell command."""
    if command is None:
        return
    if not command.strip():
        raise Refused("notify: the command is empty; leave it out to run none", field="notify")
    if len(command) > MAX_COMMAND_LENGTH or "\0" in command:
        raise Refused(
            f"notify: a command has at most {MAX_COMMAND_LENGTH} characters and no zero byte; this one has "
            f"{len(command)} characters; put it into a script",
            field="notify",
        )


def _check_output(submission: Submission) -> None:
    for field, pattern in (("output", submission.output), ("error", submission.error), ("input", submission.input)):
        if pattern is not None:
            check_pattern(pattern, field)
    if submission.open_mode not in (None, "append", "truncate"):
        raise Refused(
            f"open_mode: {submission.open_mode!r:.40} is not an open mode; use append or truncate", field="open_mode"
        )


def _check_request(request: Request) -> None:
    check_ranges(request)
    _check_share(request)
    _check_labels(request.labels, "labels")
    _check_labels(request.prefers, "prefers")
    check_rules(request.rules)
    if request.node is not None and not request.node:
        raise Refused("node: the name is empty; leave it out for any node", field="node")
    if request.node is not None and request.nodes:
        raise Refused("node and nodes both name nodes; write all of them in nodes", field="nodes")
    for field, version in (
        ("min_compute", request.min_compute),
        ("min_driver", request.min_driver),
        ("min_cuda", request.min_cuda),
    ):
        if version is not None and not (version and all(0 <= part <= 1_000_000 for part in version)):
            raise Refused(f"{field}: {list(version)} is not a version; write its parts, such as [8, 0]", field=field)
    for field, words in (
        ("models", request.models),
        ("device_uuids", request.device_uuids),
        ("avoid_jobs", request.avoid_jobs),
        ("nodes", request.nodes),
        ("excluded_nodes", request.excluded_nodes),
    ):
        if not all(words):
            raise Refused(f"{field}: one of the names is empty; remove it", field=field)
    for field, nodes in (("nodes", request.nodes), ("excluded_nodes", request.excluded_nodes)):
        if len(nodes) > MOST_HOSTS:
            raise Refused(f"{field}: {len(nodes)} nodes are named, and at most {MOST_HOSTS} are allowed", field=field)


def node_notes(view: View, request: Request) -> tuple[str, ...]:
    """Return a note for each node that a submission names and that is unknown: it may be misspelled, or join later."""
    named = (("may run on", request.nodes), ("excludes", request.excluded_nodes))
    unknown = [(name, verb) for verb, names in named for name in names if name not in view.nodes]
    notes = [
        f"there is no node {name:.60} here, which the job {verb}; {nearest(name, view.nodes)}"
        for name, verb in unknown[:_MOST_NOTED]
    ]
    more = len(unknown) - _MOST_NOTED
    return tuple([*notes, f"{more} more nodes that it names are not here"] if more > 0 else notes)


def _check_gang(request: Request) -> None:
    if request.gang_size == 1 and not (request.one_node or request.spread):
        return
    if request.gang_size == 1:
        field = "one_node" if request.one_node else "spread"
        raise Refused(
            f"{field}: this option places the members of a gang, but this job is not a gang; add --gang", field=field
        )
    if request.one_node and request.spread:
        raise Refused("--one-node and --spread contradict each other; remove one of them", field="spread")
    if request.devices == 0 or request.device_uuids or not request.whole:
        what = "this job asks for no GPU"
        if request.devices:
            what = "this job names its GPUs" if request.device_uuids else "this job asks for parts of GPUs"
        raise Refused(
            f"each member of a gang ({request.gang_size}) needs whole GPUs of its own, but {what}; remove --gang",
            field="gang_size",
        )


def _check_packable(submission: Submission) -> None:
    """Check that the job asks for one GPU, of which Corral chooses the part."""
    request, asks = submission.request, None
    if submission.kind is not JobKind.RUN:
        asks = "this is no job that Corral starts"
    elif submission.exclusive:
        asks = "this job asks for all of a node"
    elif submission.resources:
        asks = f"this job says what it needs by {', '.join(sorted(submission.resources))}; ask by --gpu-mem instead"
    elif request.devices != 1 or request.gang_size != 1:
        asks = f"this job asks for {request.devices * request.gang_size}"
    elif request.mig_profile is not None:
        asks = "this job asks for a MIG slice"
    elif request.power_limit_w is not None:
        asks = "this job sets a power limit, which holds for all of a GPU"
    elif request.means is Means.EXCLUSIVE:
        asks = "this job asks for one alone (--share exclusive)"
    elif not (request.whole or request.share_of_memory) or request.memory_percent or request.cores_percent:
        asks = "this job asks for a fixed part of one; leave the part out, and say --gpu-mem"
    if asks is not None:
        raise Refused(
            f"packable: jobs that share a GPU with their like have one GPU each, but {asks}", field="packable"
        )


def _check_labels(labels: tuple[tuple[str, str], ...], field: str) -> None:
    between(len(labels), 0, MAX_LABELS, field, "how many there are")
    _refuse_twice([key for key, _ in labels], field)
    for word in (word for pair in labels for word in pair):
        if len(word) > MAX_NAME_LENGTH or not (word and word.isprintable()):
            raise Refused(f"{field}: {word!r:.60} cannot be part of a label; write KEY=VALUE", field=field)


def _check_speeds(speeds: tuple[tuple[str, float], ...]) -> None:
    between(len(speeds), 0, MAX_SPEEDS, "speeds", "how many models they name")
    _refuse_twice([model.lower() for model, _ in speeds], "speeds")
    for model, speed in speeds:
        if len(model) > MAX_NAME_LENGTH or not (model.isprintable() and any(map(str.isalnum, model))):
            raise Refused(f"speeds: {model!r:.60} is not a GPU model; write one such as V100", field="speeds")
        if not (isfinite(speed) and speed >= 0):
            raise Refused(
                f"speeds: {speed:g} is not a speed for {model}; 1 is normal, 2 twice as fast, 0 cannot run there",
                field="speeds",
            )


def _refuse_twice(names: list[str], field: str) -> None:
    if len(set(names)) == len(names):
        return
    for name, times in Counter(names).items():
        if times > 1:
            raise Refused(f"{field}: {name} is given {times} times; give it once", field=field)


def _check_share(request: Request) -> None:
    """Check that a share is a multiple of 0.01 GPU. A share over several devices is for one member, and not on MPS."""
    for field, milli in (("share_milli", request.share_milli), ("split_milli", request.split_milli)):
        if milli is not None and milli % SHARE_QUANTUM_MILLI:
            raise Refused(
                f"{field}: {milli} is not a share; shares are multiples of 10 (hundredths of a GPU)", field=field
            )
    if request.power_limit_w is not None:
        _check_power_limit(request)
    if request.devices:
        _check_whole(request)
    if request.split_milli is None:
        return
    if not SHARE_QUANTUM_MILLI <= request.split_milli <= MAX_DEVICES * MILLI_PER_DEVICE:
        raise Refused(
            f"split_milli: {request.split_milli} is out of range; it must be from {SHARE_QUANTUM_MILLI} to "
            f"{MAX_DEVICES * MILLI_PER_DEVICE} (1000 is a whole GPU)",
            field="split_milli",
        )
    if request.devices != 1 or request.share_milli != min(MILLI_PER_DEVICE, request.split_milli):
        raise Refused(
            "split_milli: it needs devices 1, and share_milli with the same value (1000 if split_milli is larger)",
            field="split_milli",
        )
    if request.means is Means.MPS and request.split_milli > MILLI_PER_DEVICE:
        raise Refused("--share mps: a share on MPS must be on one GPU; ask for 1 GPU or less", field="means")


def _check_power_limit(request: Request) -> None:
    """Check that the devices are whole: a power limit of a device holds for everybody on it."""
    what = "no GPU" if not request.devices else "a MIG slice" if request.mig_profile is not None else "a part of a GPU"
    if request.mig_profile is not None or not request.whole or not request.devices:
        raise Refused(
            f"power_limit: a power limit is for a whole GPU, and this job asks for {what}; remove the limit, or ask "
            "for whole GPUs",
            field="power_limit_w",
        )


def _check_whole(request: Request) -> None:
    """Check options that only fit a part of a device, and options that only fit a whole device."""
    if request.share_of_memory and request.memory_mib is None:
        raise Refused("share_of_memory: the memory decides the share, but memory_mib is missing", field="memory_mib")
    if not request.whole:
        if request.mig_profile is not None:
            raise Refused("share_milli: a MIG slice is always allocated whole; remove share_milli", field="share_milli")
        if request.means is Means.EXCLUSIVE:
            raise Refused(
                "--share exclusive: an exclusive GPU is always allocated whole; ask for --gpus 1", field="means"
            )
        return
    for field in ("memory_mib", "memory_percent", "cores_percent"):
        limit = getattr(request, field)
        if limit is not None and not (field == "cores_percent" and limit == 100):
            raise Refused(
                f"{field}: a whole GPU has all its memory and compute; remove {field}, or ask for a part",
                field=field,
            )


def _check_surroundings(submission: Submission) -> None:
    for name in submission.env:
        if not name or "=" in name:
            raise Refused(
                f"env: {name!r:.60} is not a variable name; a name is not empty and contains no =", field="env"
            )
    if sum(map(len, submission.env.values())) > MAX_ENV_CHARACTERS:
        raise Refused(
            f"env: the variables have more than {MAX_ENV_CHARACTERS} characters together, which no program can receive",
            field="env",
        )
    for name, limit in submission.rlimits:
        if name not in _LIMITS:
            raise Refused(f"rlimits: {name!r:.60} is not a resource limit; {nearest(name, _LIMITS)}", field="rlimits")
        between(limit, -1, 2**63 - 1, "rlimits", f"{name}; -1 is no limit")
    if submission.kind is JobKind.RUN and not submission.workdir.startswith("/"):
        raise Refused(
            f"the working directory {submission.workdir!r:.200} is not an absolute path; begin it with /",
            field="workdir",
        )


def _check_array(array: ArraySpec) -> None:
    between(len(array.indices), 1, MAX_ARRAY_SIZE, "array", "how many elements it has")
    check_ranges(array)
    if len(set(array.indices)) != len(array.indices):
        raise Refused("array: an index is given twice; give each index once", field="array")
    for index in (min(array.indices), max(array.indices)):
        if not 0 <= index <= MAX_INDEX:
            raise Refused(f"array: {index} is not an index; indices are from 0 to {MAX_INDEX}", field="array")


def _check_input(submission: Submission) -> None:
    """Raise Refused if the job's demand for input is invalid."""
    field = "stdin" if submission.stdin else "terminal"
    if not submission.stdin and submission.terminal is None:
        return
    if submission.stdin and submission.terminal is not None:
        raise Refused("stdin: a terminal is its program's standard input already; leave out stdin", field="stdin")
    if submission.input is not None:
        raise Refused(f"input: its standard input is sent already; leave out {field} or input", field="input")
    if submission.kind is not JobKind.RUN:
        raise Refused(f"{field}: nothing runs here that could read input; leave it out", field=field)
    if submission.elements is not None:
        raise Refused(f"{field}: input goes to one job, and an array is several; leave out one of them", field=field)
    if submission.terminal is None:
        return
    check_ranges(submission.terminal)
    for name, path in (("output", submission.output), ("error", submission.error)):
        if path is not None:
            raise Refused(f"{name}: what a program writes goes to its terminal; leave out one of them", field=name)
