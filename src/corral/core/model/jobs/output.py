"""The files of a job's output and input, from patterns like those of sbatch(1): train-%j-%t.out."""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Job

NO_ELEMENT = 4294967294
"""The value of %a in a job that is not an element of an array, as in Slurm."""

_PLACEHOLDER = re.compile(r"%(\d{0,2})(.?)")
_KNOWN = "%jJxAauNnt"


def check_pattern(pattern: str, field: str) -> None:
    """Raise Refused for a pattern that is not a file path, or that has unknown placeholders."""
    if not pattern or len(pattern) > 4096 or not pattern.isprintable():
        raise Refused(f"{field}: {pattern!r:.60} is not a file path", field=field)
    for width, letter in _PLACEHOLDER.findall(pattern):
        if not letter or letter not in _KNOWN or (letter == "%" and width):
            raise Refused(
                f"{field}: %{width}{letter} is not a placeholder; %j is the job's id, %x its name, %u its user, %A the "
                "array's id, %a the element's index, %t the rank, %n the number of the node, %N its name, %% a "
                "percent sign",
                field=field,
            )


def names_each_element(pattern: str) -> bool:
    """Whether the pattern gives each job of an array a path of its own."""
    return any(letter in "jJa" for _, letter in _PLACEHOLDER.findall(pattern))


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """The files of a member's standard streams. `output` None is its log; `error` None is the same place as `output`.

    `note` is a line about them in the log, None if all output goes to the log. `input` is the file of its standard
    input, None if that is empty.
    """

    output: str | None = None
    error: str | None = None
    note: str | None = None
    input: str | None = None


def output_files(job: Job, nodes: Sequence[str]) -> tuple[OutputFiles, ...]:
    """The files of each member of a job, in the order of ranks; `nodes` are the names of their nodes.

    No member writes to a file that a member of lower rank writes to: its log gets that output instead. A script runs
    only at rank 0, so only that member has files.
    """
    output, error, wanted = job.spec.output, job.spec.error, job.spec.input
    if output is None and error is None and wanted is None:
        return (OutputFiles(),) * len(nodes)
    taken: set[str] = set()
    files = []
    for rank in range(len(nodes)):
        if rank > 0 and job.spec.script:
            files.append(OutputFiles())
            continue
        first, second = (None if one is None else path_of(one, job, rank, nodes) for one in (output, error))
        own = [None if path in taken else path for path in (first, second)]
        taken |= {path for path in own if path is not None}
        note = _note(own, taken & {first, second} - {*own})
        files.append(OutputFiles(own[0], own[1], note, None if wanted is None else path_of(wanted, job, rank, nodes)))
    return tuple(files)


def _note(own: Sequence[str | None], others: set[str]) -> str | None:
    output, error = own
    if output is not None and error in (None, output):
        said = [f"standard output and error go to {output}"]
    else:
        named = (("output", output), ("error", error))
        said = [f"standard {what} goes to {path}" for what, path in named if path is not None]
    said += [f"a lower rank writes to {path}; with %t in its name each rank has a file" for path in sorted(others)]
    return "; ".join(said) or None


def path_of(pattern: str, job: Job, rank: int, nodes: Sequence[str]) -> str:
    """The path that a pattern gives for a member, relative to the job's directory. A number after % pads with zeros."""
    node = nodes[rank]
    values = {
        "%": "%",
        "j": job.id,
        "J": job.id,
        "x": job.spec.name,
        "u": job.spec.user,
        "A": job.array_id or job.id,
        "a": str(NO_ELEMENT if job.array_index is None else job.array_index),
        "N": node.partition(".")[0],
        "n": str(list(dict.fromkeys(nodes)).index(node)),
        "t": str(rank),
    }
    path = _PLACEHOLDER.sub(lambda found: values[found[2]].rjust(int(found[1] or 0), "0"), pattern)
    return posixpath.join(job.spec.workdir, path)
