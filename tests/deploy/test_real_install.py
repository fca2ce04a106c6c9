"""What `make install` and `pip install .` make, with real environments that are fetched for it: `make test-install`."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.build_pages import STAMP
from deploy.version import version

ROOT = Path(__file__).parents[2]
NOBODY = 65534
PATIENCE_S = 60.0

if not os.environ.get("CORRAL_TEST_INSTALL"):
    pytest.skip("fetches packages; `make test-install` runs it", allow_module_level=True)

pytestmark = pytest.mark.timeout(900)


def run(*command: object, ok: bool = True, **options: Any) -> "subprocess.CompletedProcess[str]":
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    return done


def python_for_all() -> str:
    """A Python that every user may use; root's own may lie in its home."""
    from deploy.install import closed_to_others

    own = os.path.realpath(sys.executable)
    return own if closed_to_others(Path(own)) is None else "/usr/bin/python3"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that other users may enter, which pytest's are not, with a short path, for a server's socket."""
    with tempfile.TemporaryDirectory(prefix="inst-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def make(goal: str, place: Path, *words: str) -> str:
    """Make the goal under a umask that closes everything to others, and without what this process was told."""
    plain = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    command = ["make", "--no-print-directory", goal, f"PREFIX={place}/opt", f"PYTHON={python_for_all()}", *words]
    (place / "home").mkdir(exist_ok=True)
    return run(
        *command, cwd=ROOT, env={**plain, "PATH": "/usr/bin:/bin", "HOME": str(place / "home")}, umask=0o077
    ).stdout


@pytest.fixture(scope="module")
def installed(place: Path) -> Path:
    """The installed command."""
    make("install", place)
    return place / "opt" / "bin" / "corral"


@pytest.fixture
def as_another() -> dict[str, Any]:
    """Options of a process of a plain user, if this one may start such."""
    plain = {"HOME": "/", "PATH": "/usr/bin:/bin"}
    return {"env": plain, "cwd": "/"} | ({"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {})


def test_another_user_may_run_it_whatever_the_umask_was(installed: Path, as_another: dict[str, Any]) -> None:
    assert run(installed, "--version", **as_another).stdout == f"corral {version()}\n"
    assert run(installed, "help", "docs", "settings", **as_another).stdout.startswith("# Settings\n")
    assert "Run work" in run(installed, "--help", **as_another).stdout


def test_nothing_is_left_anywhere_else(installed: Path, place: Path) -> None:
    assert sorted(os.listdir(place)) == ["home", "opt"]
    assert list((place / "home").rglob("*")) == []
    assert run("git", "status", "--porcelain", "--ignored", "src/corral.egg-info", cwd=ROOT).stdout == ""
    # Modules in a build directory would get into the next wheel; what the pages were built of may be noted there.
    noted = {STAMP, STAMP.with_name("openapi.json")}
    assert set((ROOT / "build").rglob("*")) <= noted


def test_every_module_is_compiled_and_no_development_tool_is_there(installed: Path) -> None:
    packages = next((installed.parent.parent / "lib/corral/current/lib").resolve().glob("python*/site-packages"))
    sources = list((packages / "corral").rglob("*.py"))
    compiled = {path.name.partition(".cpython")[0] for path in (packages / "corral").rglob("*.pyc")}
    assert [path for path in sources if path.stem not in compiled] == []
    assert {"pip", "setuptools", "pytest", "hatchling", "mypy"} & set(os.listdir(packages)) == set()


def test_a_users_python_path_is_no_part_of_it_and_is_part_of_the_jobs(
    installed: Path, tmp_path: Path, place: Path
) -> None:
    for name in ("rich", "uvicorn"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the user')")
    with serving(installed, place, PYTHONPATH=str(tmp_path)) as env:
        shown = run(installed, "run", "--gpus", "1", "--", sys.executable, "-c", "import rich", env=env, ok=False)
    assert "of the user" in shown.stderr + shown.stdout


def test_jobs_outlive_an_upgrade_under_a_running_server(installed: Path, place: Path) -> None:
    gate, versions = place / "gate", place / "opt/lib/corral/versions"
    with serving(installed, place) as env:
        script = f"until [ -e {gate} ]; do sleep 0.1; done; exit 7"
        job = run(installed, "submit", "--gpus", "1", "--", "sh", "-c", script, env=env).stdout.strip()
        until_running(installed, job, env)
        make("install", place)
        assert len(os.listdir(versions)) == 2
        assert run(installed, "run", "--gpus", "1", "--", "echo", "it serves", env=env).stdout == "it serves\n"
    with serving(installed, place) as env:
        gate.touch()
        assert "failed with exit code 7" in run(installed, "wait", job, env=env, ok=False).stderr


@contextmanager
def serving(command: Path, place: Path, **environ: str) -> Iterator[dict[str, str]]:
    """The variables with which the installed command finds a server of eight mock GPUs."""
    env = {**os.environ, "CORRAL_HOME": str(place / "box"), **environ}
    run(command, "up", "--detach", "--mock", env=env)
    try:
        yield env
    finally:
        run(command, "down", env=env)


def until_running(command: Path, job: str, env: dict[str, str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while json.loads(run(command, "ps", "--json", env=env).stdout)[0]["phase"] != "RUNNING":
        assert time.monotonic() < deadline, f"job {job} did not start"
        time.sleep(0.1)


def test_uninstalling_leaves_nothing(installed: Path, place: Path) -> None:
    assert installed.exists()
    make("uninstall", place)
    assert "opt" not in os.listdir(place)


def test_a_client_alone_is_what_pip_installs(tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path)
    run(tmp_path / "bin" / "pip", "install", "--quiet", ROOT)
    command = tmp_path / "bin" / "corral"
    assert run(command, "--version").stdout == f"corral {version()}\n"
    assert "settings" in run(command, "help", "docs").stdout
    run(tmp_path / "bin" / "python", "-c", "import corral; corral.Client; corral.gpu.lease")
    refused = run(command, "up", ok=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
    run("sh", "-c", refused.stderr.partition("install them: ")[2])
    assert run(command, "simulate", "faults", "--help").returncode == 0
    assert run(tmp_path / "bin" / "python", "-c", "import corral.app.server").returncode == 0
