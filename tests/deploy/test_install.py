"""`make install` switches between whole installations, and `make uninstall` removes what it made and nothing else.

The environment is a small one here; tests/deploy/test_real_install.py makes real ones.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from deploy import install as script
from deploy.install import Failed, Layout, install, uninstall

COMMAND = "#!/bin/sh\necho {name} $1 $2\n"


def small_environment(layout: Layout, environment: Path, packages: Sequence[str]) -> None:
    programs = layout.at(environment) / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("/bin/sh")
    (programs / "corral").write_text(COMMAND.format(name=environment.name))
    (programs / "corral").chmod(0o755)
    (programs / "packages").write_text(" ".join(packages))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "make_environment", small_environment)
    monkeypatch.setattr(script, "has_service", lambda layout: True)
    monkeypatch.setattr(script, "check_interpreter", lambda layout: None)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "opt" / "corral")


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def installations(layout: Layout) -> list[str]:
    return sorted(path.name for path in layout.at(layout.versions).iterdir())


def test_the_command_is_that_of_the_last_installation_and_the_one_before_stays(layout: Layout) -> None:
    for count in (1, 2, 2):
        install(layout, None)
        assert len(installations(layout)) == count
        newest = installations(layout)[-1]
        assert subprocess.check_output([layout.command], text=True).split() == [newest]
    assert os.listdir(layout.command.parent) == ["corral"]


def test_an_installation_that_a_process_uses_stays_until_it_has_ended(layout: Layout) -> None:
    install(layout, None)
    (first,) = installations(layout)
    with subprocess.Popen(["sleep", "1000"], env={"SOME_PATH": f"{layout.versions / first}/bin:/usr/bin"}) as process:
        install(layout, None)
        told = install(layout, None)
        assert len(installations(layout)) == 3
        assert [line for line in told if line.startswith(f"{first} stays: processes {process.pid} ")] != []
        with pytest.raises(Failed, match=f"processes {process.pid} run from"):
            uninstall(layout, force=False)
        process.kill()
    install(layout, None)
    assert first not in installations(layout)


def test_uninstalling_leaves_everything_else_as_it_was(layout: Layout, tmp_path: Path) -> None:
    for name in ("bin/other", "share/zsh/site-functions/_other", "lib/corral/notes"):
        (layout.prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (layout.prefix / name).touch()
    before = tree(tmp_path)
    install(layout, None)
    install(layout, None)
    assert "share/bash-completion/completions/corral" in tree(layout.prefix)
    assert any("/var/lib/corral" in line for line in uninstall(layout, force=False))
    assert tree(tmp_path) == before


def test_a_unit_that_systemd_starts_is_not_removed_under_it(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(layout, None)
    link = tmp_path / "etc" / "multi-user.target.wants" / "corral.service"
    link.parent.mkdir(parents=True)
    link.symlink_to(layout.unit)
    monkeypatch.setattr(script, "ENABLED", tmp_path / "etc")
    with pytest.raises(Failed, match="systemctl disable --now corral"):
        uninstall(layout, force=False)
    link.unlink()
    uninstall(layout, force=False)


def test_uninstalling_leaves_no_directory_that_installing_made(layout: Layout, tmp_path: Path) -> None:
    install(layout, None)
    uninstall(layout, force=False)
    assert tree(tmp_path) == set()
    with pytest.raises(Failed, match="nothing is installed in"):
        uninstall(layout, force=False)


def test_a_file_that_its_administrator_changed_stays(layout: Layout, tmp_path: Path) -> None:
    install(layout, None)
    layout.unit.write_text("[Service]\nNice=5\n")
    assert any(f"{layout.unit} stays" in line for line in uninstall(layout, force=False))
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"corral.service"}


def test_the_unit_starts_the_installed_command_and_has_no_other_path_of_the_package(layout: Layout) -> None:
    install(layout, None)
    unit = layout.unit.read_text()
    assert f"\nExecStart={layout.command} up\n" in unit
    assert script.UNIT_COMMAND not in unit


@pytest.mark.parametrize(
    ("wheel", "told"), [("corral-1-py3-none-any.whl", True), ("corral-1-py3-none-linux.whl", False)]
)
def test_a_server_is_not_installed_without_the_supervisor_of_jobs(tmp_path: Path, wheel: str, told: bool) -> None:
    (tmp_path / wheel).touch()
    with pytest.raises(Failed, match="apt install gcc") if told else nullcontext():
        script.check_wheel(tmp_path)


def test_what_cannot_be_compiled_is_an_error_that_says_what_to_install(tmp_path: Path) -> None:
    build = Path(script.__file__).with_name("build_supervisor.py")
    command = [sys.executable, str(build), "--sanitize", str(tmp_path / "supervisor")]
    done = subprocess.run(command, env={"CC": "/nowhere/cc"}, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no server starts without it" in done.stderr
    assert "apt install gcc" in done.stderr


def test_a_failed_install_changes_nothing(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Failed("pip failed")

    monkeypatch.setattr(script, "make_environment", fail)
    with pytest.raises(Failed):
        install(layout, None)
    assert tree(tmp_path) == set()
    monkeypatch.setattr(script, "make_environment", small_environment)
    install(layout, None)
    before = tree(tmp_path)
    monkeypatch.setattr(script, "make_environment", fail)
    with pytest.raises(Failed):
        install(layout, None)
    assert tree(tmp_path) == before


def test_what_is_staged_for_a_package_names_no_staging_path(tmp_path: Path) -> None:
    layout = Layout(Path("/usr"), str(tmp_path / "stage"))
    install(layout, None)
    assert layout.at(layout.command).resolve().parent.parent.parent == layout.at(layout.versions)
    texts = [path.read_text() for path in (tmp_path / "stage").rglob("*") if path.is_file() and path.name != "python"]
    assert [text for text in texts if str(tmp_path) in text] == []
    assert set(os.listdir(tmp_path / "stage")) == {"usr"}


def test_a_command_that_something_else_put_there_is_not_replaced(layout: Layout) -> None:
    layout.command.parent.mkdir(parents=True)
    layout.command.symlink_to("/home/alice/corral/.venv/bin/corral")
    with pytest.raises(Failed, match=f"remove it first: rm {layout.command}"):
        install(layout, None)
    assert os.readlink(layout.command) == "/home/alice/corral/.venv/bin/corral"
    assert os.listdir(layout.prefix) == ["bin"]


def test_packages_of_the_site_are_installed_again_until_others_are_named(layout: Layout, tmp_path: Path) -> None:
    def packages() -> str:
        return (layout.current / "bin" / "packages").read_text()

    install(layout, ["our-orders", str(tmp_path)])
    install(layout, None)
    assert packages() == f"our-orders {tmp_path}"
    install(layout, [])
    assert packages() == ""


@pytest.mark.parametrize("prefix", ["opt/corral", "/opt/my corral", "/opt/%h", "~/.local", "/opt/$HOME"])
def test_a_prefix_that_a_unit_or_a_program_could_not_name_is_refused(prefix: str) -> None:
    with pytest.raises(Failed, match="PREFIX must be an absolute path"):
        install(Layout(Path(prefix)), None)


def test_only_one_installs_at_a_time(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(*words: Sequence[str]) -> None:
        small_environment(*words)  # type: ignore[arg-type]
        with pytest.raises(Failed, match="another `make install` is at work"):
            install(layout, None)

    monkeypatch.setattr(script, "make_environment", meanwhile)
    install(layout, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#!/stage/v/bin/python\nimport x\n", "#!/v/bin/python -I\nimport x\n"),
        ("#!/bin/sh\n'exec' /stage/v/bin/python $0\n", "#!/bin/sh\n'exec' /v/bin/python $0\n"),
    ],
)  # fmt: skip
def test_a_program_starts_with_the_final_path_and_without_its_users_modules(
    text: str, expected: str, tmp_path: Path
) -> None:
    program = tmp_path / "corral"
    program.write_text(text)
    script.rewrite_first_line(program, "/stage/v/bin", "/v/bin")
    assert program.read_text() == expected


def test_a_python_that_others_may_not_enter_is_refused_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert script.closed_to_others(Path("/usr/bin/env")) is None
    python = tmp_path / "closed" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    python.parent.parent.chmod(0o700)
    found = script.closed_to_others(python)
    assert found is not None
    assert python.is_relative_to(found)
