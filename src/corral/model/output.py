"""Where a job's output goes, from patterns as sbatch(1) has them: train-%j.out, %x_%A_%3a.log."""

import re

from corral.model.errors import Refused
from corral.model.job import Job

NO_ELEMENT = 4294967294
"""What %a is in a job that is no element of an array, as in Slurm."""

_PLACEHOLDER = re.compile(r"%(\d{0,2})(.?)")
_KNOWN = "%jJxAauNnt"


def check_pattern(pattern: str, field: str) -> None:
    """Raises Refused for a pattern that names no file, or has placeholders that mean nothing here."""
    if not pattern or len(pattern) > 4096 or not pattern.isprintable():
        raise Refused(f"{field}: {pattern!r:.60} is no path of a file", field=field)
    for width, letter in _PLACEHOLDER.findall(pattern):
        if not letter or letter not in _KNOWN or (letter == "%" and width):
            raise Refused(
                f"{field}: %{width}{letter} means nothing; %j is the job's id, %x its name, %u its user, %A the "
                "array's id, %a the element's index, %N the machine, %% a percent sign",
                field=field,
            )


def path_of(pattern: str, job: Job, machine: str) -> str:
    """The path that a pattern comes to for a job on this machine; a number after % pads with zeros."""
    words = {
        "%": "%",
        "j": job.id,
        "J": job.id,
        "x": job.spec.name,
        "u": job.spec.user,
        "A": job.array_id or job.id,
        "a": str(NO_ELEMENT if job.array_index is None else job.array_index),
        "N": machine.partition(".")[0],
        "n": "0",
        "t": "0",
    }
    return _PLACEHOLDER.sub(lambda found: words[found[2]].rjust(int(found[1] or 0), "0"), pattern)
