"""What is sent to a host is pure Python and one static program, the same bytes each time, and an agent runs on it."""

import io
import platform
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import corral
from corral.engines.hosts.installing import bundle as bundles
from corral.engines.hosts.installing.bundle import Bundle, WrongMachine, bundle_for

SUPERVISOR = "site-packages/corral/host/runtimes/process/native/corral-supervisor"


@pytest.fixture(scope="module")
def own() -> Bundle:
    return bundle_for(platform.machine(), "glibc 2.17")


@pytest.fixture
def fresh() -> Iterator[None]:
    yield
    bundles._bundle.cache_clear()
    bundles._supervisors.cache_clear()


def names(bundle: Bundle) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(bundle.data)) as archive:
        return archive.getnames()


def test_it_has_no_compiled_part_but_the_supervisor_and_no_pages(own: Bundle) -> None:
    found = names(own)
    assert SUPERVISOR in found
    assert [name for name in found if name.endswith((".so", ".pyc"))] == []
    assert [name for name in found if "/pages/" in name or "/numpy/" in name] == []
    assert "site-packages/yaml/__init__.py" in found
    assert any("LICENSE" in name and "pyyaml" in name for name in found)
    assert len(own.data) < 4_000_000


def test_the_same_installation_makes_the_same_bytes(own: Bundle, fresh: None) -> None:
    bundles._bundle.cache_clear()
    assert bundle_for(platform.machine(), "glibc 2.17") == own
    assert own.version.startswith(f"{corral.__version__}-")


def test_an_agent_needs_nothing_else(own: Bundle, tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(own.data)) as archive:
        archive.extractall(tmp_path, filter="data")
    load = (
        f"import sys; sys.path.append({str(tmp_path / 'site-packages')!r});"
        "import corral.host.node.agent, corral.host.node.local, yaml, pynvml, docker, corral.cli;"
        "import corral.host.runtimes.docker.runner, corral.host.telemetry.reading.process_worker;"
        "assert not yaml.__with_libyaml__;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    # -S leaves out what else is installed here.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", load], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not {"numpy", "ddsketch", "sqlalchemy", "pydantic", "rich"} & set(done.stdout.split())


def test_another_architecture_is_refused_unless_its_supervisor_is_here(
    own: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    with pytest.raises(WrongMachine, match=r"its architecture is riscv64, and this server has the supervisor .* for"):
        bundle_for("riscv64", "glibc 2.36")
    program = bytearray(
        (bundles._PACKAGE.parent / "corral/host/runtimes/process/native/corral-supervisor").read_bytes()
    )
    program[18:20] = (243).to_bytes(2, "little")
    native = tmp_path / "corral/host/runtimes/process/native"
    native.mkdir(parents=True)
    (native / "corral-supervisor.riscv64").write_bytes(program)
    monkeypatch.setattr(bundles, "_PACKAGE", tmp_path / "corral")
    bundles._supervisors.cache_clear()
    assert SUPERVISOR in names(bundle_for("riscv64", ""))
    with pytest.raises(WrongMachine, match="for riscv64"):
        bundle_for(platform.machine(), "glibc 2.36")


def test_a_supervisor_that_needs_a_newer_c_library_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    native = tmp_path / "corral/host/runtimes/process/native"
    native.mkdir(parents=True)
    # Python itself is linked dynamically.
    python = Path(sys.executable).resolve().read_bytes()
    (native / "corral-supervisor").write_bytes(python)
    monkeypatch.setattr(bundles, "_PACKAGE", tmp_path / "corral")
    bundles._supervisors.cache_clear()
    with pytest.raises(WrongMachine, match=r"needs glibc 2\.\d+, and the host has glibc 2\.1;"):
        bundle_for(platform.machine(), "glibc 2.1")
    with pytest.raises(WrongMachine, match="needs glibc, and the host has another"):
        bundle_for(platform.machine(), "")
