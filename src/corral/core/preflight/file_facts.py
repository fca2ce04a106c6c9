"""Facts from the files of a job: the CUDA runtime and the model that its program loads.

Only `read_facts` reads files, as the user who calls it. A user's files may be made to harm the reader, so a server
calls it in a separate process.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.core.model.errors import Refused
from corral.core.model.jobs.checkpoints import WholeCheckpoint
from corral.core.ports.host import FileQuery
from corral.core.preflight.command_line import CommandLine
from corral.core.preflight.cuda_runtime import FoundRuntime, python_environment, runtime_of_binary, runtime_of_python
from corral.core.preflight.model_source import LocalModel, find_model
from corral.core.preflight.program_lookup import ProgramFinding, look_up
from corral.core.preflight.script_argument import exists
from corral.core.preflight.whole_checkpoint import whole_checkpoint

_FOR_PROGRAMS = ("PATH", "LD_LIBRARY_PATH")
_FOR_MODELS = ("HF_HOME", "HF_HUB_CACHE", "HOME")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The result of a query; None means absent, or not asked for.

    Attributes:
        enterable: whether the directory can be a working directory.
        paddle: the environment that has PaddlePaddle, and no PyTorch.
        model_trouble: why an existing model cannot be parsed.
        start: whether the program can be started.
        exists: whether the file exists; None if that is not known.
        checkpoint: the last whole checkpoint.
    """

    enterable: bool | None = None
    runtime: FoundRuntime | None = None
    paddle: str | None = None
    model: LocalModel | None = None
    model_trouble: str | None = None
    start: ProgramFinding | None = None
    exists: bool | None = None
    checkpoint: WholeCheckpoint | None = None


def file_query(line: CommandLine, env: Mapping[str, str], workdir: str) -> FileQuery:
    """The query for the files of this command. Commands with the same files have equal queries."""
    program = line.program[0] if line.program else None
    if program is not None and "/" in program:
        program = os.path.join(workdir, program)
    path = ":".join(os.path.join(workdir, name) for name in env.get("PATH", "").split(":") if name)
    named = {name: env[name] for name in (*_FOR_PROGRAMS, *(_FOR_MODELS if line.model else ())) if name in env}
    variables = tuple(sorted({**named, "PATH": path}.items()))
    return FileQuery(program=program, model=line.model, workdir=workdir if line.model else "/", variables=variables)


def read_facts(query: FileQuery) -> FileFacts:
    """Read the files of a query. Files that cannot be read count as absent."""
    if query.directory is not None:
        return FileFacts(enterable=_is_enterable(query.directory))
    if query.start is not None:
        path = dict(query.variables).get("PATH", os.defpath)
        return FileFacts(start=look_up(query.start, path, query.workdir))
    if query.file is not None:
        return FileFacts(exists=exists(query.file, dict(query.variables).get("PATH"), query.workdir))
    if query.checkpoints:
        return FileFacts(checkpoint=whole_checkpoint(query.checkpoints))
    env, workdir = dict(query.variables), Path(query.workdir)
    program = () if query.program is None else (query.program,)
    python = python_environment(program, env, workdir)
    runtime = runtime_of_python(python, env) if python else runtime_of_binary(program, env, workdir)
    paddle = str(python.root) if python and python.has("paddle") and not python.has("torch") else None
    try:
        model = None if query.model is None else find_model(query.model, env, workdir)
    except Refused as refused:
        return FileFacts(runtime=runtime, paddle=paddle, model_trouble=str(refused))
    return FileFacts(runtime=runtime, paddle=paddle, model=model)


def _is_enterable(directory: str) -> bool:
    try:
        return os.path.isdir(directory) and os.access(directory, os.X_OK)
    except ValueError:
        return False
