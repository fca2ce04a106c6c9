"""An image for containers of tests, made of this host's own programs: no registry is asked."""

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

IMAGE = "test/train:1"
_PROGRAMS = ("sh", "sleep", "cat", "dd", "id", "env", "mkdir", "rm", "stty")


def write_image(path: Path) -> None:
    """A root with a shell and what else jobs of tests call, with their libraries, as `docker import` takes it."""
    files: dict[str, Path] = {}
    for name in _PROGRAMS:
        program = shutil.which(name)
        assert program is not None
        files[f"bin/{name}"] = Path(program).resolve()
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        files |= {library.lstrip("/"): Path(library).resolve() for library in re.findall(r"/\S+", libraries)}
    with tarfile.open(path, "w") as image:
        for name, file in files.items():
            image.add(file, name)
        for name in ("tmp", "proc", "dev", "sys", "etc"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            image.addfile(directory, io.BytesIO())
