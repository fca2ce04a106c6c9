"""Sweeps: checks their parameters, and makes the specification of each of their jobs."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.jobs.array_indices import MAX_ARRAY_SIZE
from corral.core.model.jobs.job import JobKind, JobSpec
from corral.core.model.jobs.submission import Submission
from corral.core.model.jobs.sweep import Params, Sweep, with_values, with_values_in_pattern
from corral.declared.field_limits import between, check_ranges
from corral.wire import to_plain

MAX_PARAMS = 20
MAX_PARAM_NAME_LENGTH = 64
MAX_VALUE_LENGTH = 1000
MAX_ELEMENT_LENGTH = 4000
"""The most characters of all values of one job together: each job is stored with its values."""

MAX_TEXT = 64 * 1024 * 1024
"""The most characters of the texts of all jobs of the arrays and sweeps in one request: the ledger stores each text."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = re.compile(
    r"(CORRAL|CUDA|LD|NVIDIA|SLURM)_.*|PATH|HOME|USER|LOGNAME|SHELL|PWD|IFS|BASH_ENV|TMPDIR|PYTHONPATH|PYTHONHOME|"
    r"RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|MASTER_ADDR|MASTER_PORT"
)
"""Variables that Corral sets itself, or without which a job does not find its programs and files."""


def first_of(submission: Submission) -> Submission:
    """Return the submission of the sweep's first job, whose files are checked and shown for the whole sweep."""
    params = None if submission.sweep is None else next(submission.sweep.elements(), None)
    if params is None or _growth(submission) > MAX_TEXT:
        return submission
    return replace(submission, **_with_values(submission, params), env={**submission.env, **dict(params)})


def element_specs(spec: JobSpec, sweep: Sweep) -> Iterator[JobSpec]:
    """Yield the specification of each job of the sweep; `spec` has the parts that all share."""
    for params in sweep.elements():
        yield replace(spec, **_with_values(spec, params), params=params)


def _with_values(of: Submission | JobSpec, params: Params) -> dict[str, Any]:
    """Return the texts that may contain parameters, with the parameters replaced by their values."""
    return {
        "command": tuple([with_values(word, params) for word in of.command]),
        "name": with_values(of.name, params),
        "workdir": with_values(of.workdir, params),
        "output": None if of.output is None else with_values_in_pattern(of.output, params),
        "error": None if of.error is None else with_values_in_pattern(of.error, params),
        "input": None if of.input is None else with_values_in_pattern(of.input, params),
        "checkpoint_dir": None if of.checkpoint_dir is None else with_values_in_pattern(of.checkpoint_dir, params),
    }


def check_text(submissions: Iterable[Submission]) -> None:
    """Raise Refused if the stored texts of all jobs of these arrays and sweeps exceed MAX_TEXT."""
    several = [one for one in submissions if one.elements is not None]
    length = sum(_kept_length(one) * _count(one) for one in several)
    if length > MAX_TEXT:
        field = "array" if any(one.sweep is None for one in several) else "params"
        raise Refused(
            f"{field}: command, name and files of all jobs together may come to {length:,} characters; at most "
            f"{MAX_TEXT:,} are allowed; put long text into a file and give its name",
            field=field,
        )


def _count(submission: Submission) -> int:
    if submission.sweep is not None:
        return submission.sweep.size
    return 0 if submission.array is None else len(submission.array.indices)


def _kept_length(submission: Submission) -> int:
    """Return an upper bound of the characters stored with each job of the submission. The environment is stored once
    for all jobs.
    """
    plain = to_plain(replace(submission, env={}, array=None, sweep=None), compact=True)
    values = [] if submission.sweep is None else _longest(submission.sweep)
    return len(json.dumps(plain)) + _growth(submission) + sum(len(value) for _, value in values)


def _growth(submission: Submission) -> int:
    """Return an upper bound of the characters that parameter values add to the texts of each job."""
    longest = [] if submission.sweep is None else _longest(submission.sweep)
    patterns = (submission.output, submission.error, submission.input, submission.checkpoint_dir)
    files = tuple(pattern or "" for pattern in patterns)
    texts = (*submission.command, submission.name, submission.workdir, *files)
    names = [(f"{{{name}}}", 2 * len(value)) for name, value in longest]  # a file doubles percent signs
    return sum(text.count(name) * length for text in texts for name, length in names)


def _longest(sweep: Sweep) -> Params:
    return tuple((name, max(values, key=len, default="")) for name, values in sweep.params.items())


def check_sweep(submission: Submission, most_name_length: int) -> None:
    """Raise Refused for a sweep with invalid names or values, or with too many jobs."""
    sweep = submission.sweep
    if sweep is None:
        return
    if submission.array is not None:
        raise Refused(
            "--array and --param both say how many jobs there are; remove one of them (to repeat each combination, add "
            "a parameter such as --param repeat=0..4)",
            field="array",
        )
    if submission.kind is not JobKind.RUN:
        raise Refused("params: only jobs that run a command have parameters", field="params")
    check_ranges(sweep)
    between(len(sweep.params), 1, MAX_PARAMS, "params", "how many there are")
    for name, values in sweep.params.items():
        _check_name(name)
        _check_values(name, values, distinct=not sweep.zipped)
    _check_size(sweep)
    check_text([submission])
    longest = _longest(sweep)
    together = sum(len(value) for _, value in longest)
    if together > MAX_ELEMENT_LENGTH:
        raise Refused(
            f"params: the values of one job have up to {together} characters together, and {MAX_ELEMENT_LENGTH} are "
            "the most; put long values into files and give their names",
            field="params",
        )
    name_length = len(with_values(submission.name, longest))
    if name_length > most_name_length:
        raise Refused(
            f"name: with its parameters it has up to {name_length} characters; at most {most_name_length} are allowed; "
            "leave a parameter out",
            field="name",
        )


def _check_name(name: str) -> None:
    if len(name) > MAX_PARAM_NAME_LENGTH or _NAME.fullmatch(name) is None:
        raise Refused(
            f"--param: {name!r:.80} is not a name; use letters, digits and _, at most {MAX_PARAM_NAME_LENGTH}, such as "
            "lr=0.1,0.01",
            field="params",
        )
    if _RESERVED.fullmatch(name):
        raise Refused(
            f"--param: {name} would change a variable of that name that jobs need as it is; use another name",
            field="params",
        )


def _check_values(name: str, values: Sequence[str], *, distinct: bool) -> None:
    if not values:
        raise Refused(f"--param: {name} has no values; give one or more, such as {name}=1,2", field="params")
    if not all(values):
        raise Refused(f"--param: {name} has an empty value; remove it", field="params")
    for value in values:
        if len(value) > MAX_VALUE_LENGTH or not value.isprintable():
            raise Refused(
                f"--param: {name} has the value {value!r:.60}, which is not allowed; use at most {MAX_VALUE_LENGTH} "
                "printable characters",
                field="params",
            )
    value, times = Counter(values).most_common(1)[0]
    if distinct and times > 1:
        raise Refused(
            f"--param: {name} has the value {value:.60} {times} times, which makes equal jobs; give it once (to repeat "
            "jobs, add a parameter such as --param repeat=0..4)",
            field="params",
        )


def _check_size(sweep: Sweep) -> None:
    counts = {name: len(values) for name, values in sweep.params.items()}
    if sweep.zipped and len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise Refused(
            f"--zip pairs values in their order, so all parameters need the same number of values, but {listed}; "
            "leave --zip out for all combinations",
            field="params",
        )
    if sweep.size > MAX_ARRAY_SIZE:
        factors = "" if sweep.zipped or len(counts) == 1 else " (" + " x ".join(map(str, counts.values())) + ")"
        raise Refused(
            f"--param: {sweep.size:,} jobs{factors} are {sweep.size - MAX_ARRAY_SIZE:,} more than the "
            f"{MAX_ARRAY_SIZE:,} that a sweep may have; give fewer values",
            field="params",
        )
