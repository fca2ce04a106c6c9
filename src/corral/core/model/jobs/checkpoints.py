"""The checkpoints of a job: the directories where its program puts them, and the last whole one.

A program names a checkpoint by replacing `latest` in the directory atomically: a link to the checkpoint, or the
checkpoint itself. From then on it is whole. Each member of a gang has a directory of its own; a gang's checkpoint is
whole once each member has named its part. A script of a gang runs at rank 0 alone, and has one directory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from corral.core.model.jobs.job import Job, JobKind, JobSpec
from corral.core.model.jobs.output import path_of

IN_SCRATCH = "checkpoint"
"""The directory in a job's scratch, if the job names none."""

LATEST = "latest"
"""The name by which a program says which checkpoint is whole."""


@dataclass(frozen=True, slots=True)
class WholeCheckpoint:
    """The last whole checkpoint of a job.

    Attributes:
        paths: the checkpoint in each directory of the job, in the order of the directories.
        age_s: how long ago it was named, by the clock of the node that looked; of a gang, by its first member.
    """

    paths: tuple[str, ...]
    age_s: float


def has_checkpoints(spec: JobSpec) -> bool:
    """Whether the job says that its program makes checkpoints: by a signal, or by a directory for them."""
    return spec.kind is JobKind.RUN and (spec.checkpoint_signal is not None or spec.checkpoint_dir is not None)


def checkpoint_dirs(job: Job, nodes: Sequence[str]) -> tuple[str, ...]:
    """The directory of each member in the order of ranks, or one for all; () if the job makes no checkpoints.

    `nodes` are the names of the members' nodes. A relative path begins in the scratch of the job.
    """
    if not has_checkpoints(job.spec):
        return ()
    pattern, alone = job.spec.checkpoint_dir, len(nodes) == 1 or job.spec.script
    ranks = range(1 if alone else len(nodes))
    dirs = tuple(IN_SCRATCH if pattern is None else path_of(pattern, job, rank, nodes) for rank in ranks)
    if alone or len(set(dirs)) == len(dirs):
        return dirs
    return tuple(f"{one}/rank-{rank}" for rank, one in enumerate(dirs))


def own_directory(dirs: Sequence[str], rank: int) -> str:
    """The directory of a member among those of `checkpoint_dirs`."""
    return dirs[rank if len(dirs) > 1 else 0]
