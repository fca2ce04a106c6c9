"""An image with Python and the stand-in server, made of what both load on this host: no registry is asked."""

import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.docker.image import write_image

IMAGE = "corral/stand-in:1"

_FIRST = """#!/bin/sh
echo "devices=$NVIDIA_VISIBLE_DEVICES cuda=${{CUDA_VISIBLE_DEVICES-absent}} model=$MODEL_PATH"
exec {python} "$@"
"""
"""`python3`: what it sees of GPUs it says first."""

_LOADED = """
import corral.features.tuner.engines.stand_in_server, encodings.idna, encodings.latin_1, json, socket, sys
print(json.dumps([m.__file__ for m in sys.modules.values() if getattr(m, "__file__", None)]))
"""


def write_stand_in_image(path: Path) -> None:
    """What `docker import` takes: a root with a shell, and `python3` with the modules of the server."""
    write_image(path)
    python = Path(sys.executable).resolve()
    asked = subprocess.run([python, "-I", "-c", _located()], capture_output=True, text=True, check=True)
    modules = [Path(name) for name in json.loads(asked.stdout)]
    binaries = [python, *(module for module in modules if module.suffix == ".so")]
    linked = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=True).stdout
    libraries = {Path(name) for name in re.findall(r"=> (/\S+)", linked)}
    standard = Path(json.__file__).parents[1]
    with tarfile.open(path, "a") as image:
        there = set(image.getnames())
        for name, file in {_place_of(file, standard): file for file in (python, *libraries, *modules)}.items():
            if name not in there:
                image.add(file.resolve(), name)
        first = tarfile.TarInfo("usr/bin/python3")
        text = _FIRST.format(python=python).encode()
        first.size, first.mode = len(text), 0o755
        image.addfile(first, io.BytesIO(text))


def _located() -> str:
    """The program that names its modules: of Corral this one, as the image's Python has it with its own."""
    source = Path(__file__).parents[3] / "src"
    return f"import sys; sys.path.append({str(source)!r})\n{_LOADED}"


def _place_of(file: Path, standard: Path) -> str:
    """Where a file is in the image: as here, and what is Corral's beside the standard library."""
    source = Path(__file__).parents[3] / "src"
    return str(standard / file.relative_to(source) if file.is_relative_to(source) else file).lstrip("/")
