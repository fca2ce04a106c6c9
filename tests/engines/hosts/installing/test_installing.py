"""An agent is installed on another host: a mount and PID namespace of this machine, through `sh -s` alone."""

import json
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import corral
from corral.core.model.errors import BackendFailed, Conflict, NodeUnreachable
from corral.core.model.runs.launch import LaunchPhase
from corral.engines.hosts.installing import bundle as bundles
from corral.engines.hosts.installing.bundle import bundle_for
from corral.engines.hosts.installing.installer import ShellOutput, install, remove, uninstall, upgrade
from tests.engines.hosts.installing.conftest import HOME, KEY, LIBRARY, ORDER, Installing, answers
from tests.host.node.conftest import a_launch, until

pytestmark = pytest.mark.long


@pytest.fixture
def newer(tmp_path: Path) -> Iterator[str]:
    """From now on this server is of another version."""
    package = tmp_path / "corral"
    shutil.copytree(Path(corral.__file__).parent, package, ignore=shutil.ignore_patterns("pages", "__pycache__"))
    (package / "version.txt").write_text("9.9.9\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "_PACKAGE", package)
        patch.setattr(corral, "__version__", "9.9.9")
        forget_bundles()
        yield "9.9.9"
    forget_bundles()


def forget_bundles() -> None:
    bundles._bundle.cache_clear()
    bundles._supervisors.cache_clear()


def test_an_agent_is_installed_through_a_shell_and_runs_jobs(there: Installing) -> None:
    installed = there.install()
    node = there.agent()
    state = node.installation.state()
    assert state.version == installed.version
    assert there.versions() == [installed.version]
    node.launches.reconcile((), ())
    node.launches.launch(a_launch(1, "sh", "-c", "echo hello $CUDA_VISIBLE_DEVICES", uuid="GPU-0"))
    until(lambda: node.launches.reports(("1.1",)).reports[0].phase is LaunchPhase.EXITED, "the job has ended")
    assert "hello" in there.path(f"{HOME}/logs/1.log").read_text()
    assert there.path(f"{HOME}/config.yaml").read_text() == ORDER.settings


def test_installing_again_changes_nothing_and_restarts_no_agent(there: Installing) -> None:
    first = there.install()
    before = there.agent().installation.state()
    assert there.install() == first
    assert there.agent().installation.state() == before


def test_new_settings_and_options_start_the_agent_again(there: Installing) -> None:
    there.install()
    before = there.agent().installation.state().instance
    there.install(replace(ORDER, settings="kill_grace: 3s\n"))
    after = there.agent().installation.state().instance
    assert after != before
    there.install(replace(ORDER, settings="kill_grace: 3s\n", options=("--mock", "/root/mock.toml")))
    assert there.agent().installation.state().instance != after


def test_settings_that_a_person_changed_there_stay(there: Installing) -> None:
    there.install()
    there.path(f"{HOME}/config.yaml").write_text("labels: {zone: a}\n")
    installed = there.install(replace(ORDER, settings="kill_grace: 3s\n"))
    assert any("config.yaml stays" in remark for remark in installed.remarks)
    assert there.path(f"{HOME}/config.yaml").read_text() == "labels: {zone: a}\n"


def test_the_servers_key_is_one_restricted_line_and_the_others_stay(there: Installing) -> None:
    keys = there.path("/root/.ssh/authorized_keys")
    there.sh("mkdir -p /root/.ssh && echo 'ssh-rsa AAAA mine' > /root/.ssh/authorized_keys && chmod 640 /root/.ssh/a*")
    there.install()
    there.install(replace(ORDER, public_key=KEY.replace("IB", "IC")))
    assert keys.read_text().splitlines() == [
        "ssh-rsa AAAA mine",
        f'restrict,command="{LIBRARY}/current/bin/corral agent connect" {KEY[:-14]}IC corral-server-tag1',
    ]
    assert keys.stat().st_mode & 0o777 == 0o640


def test_a_new_version_takes_the_agents_place_while_a_job_runs(there: Installing, newer: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corral, "__version__", "9.9.8")
        forget_bundles()
        old = there.install().version
    forget_bundles()
    node = there.agent()
    node.launches.reconcile((), ())
    launch = a_launch(1, "sh", "-c", "sleep 4; echo survived", uuid="GPU-0")
    node.launches.launch(launch)
    until(lambda: node.launches.reports(("1.1",)).reports[0].phase is LaunchPhase.RUNNING, "the job runs")
    pid = int(there.path(f"{HOME}/corral.pid").read_text())
    steps: list[str] = []
    version = upgrade(node.installation, "kill_grace: 5s\n", steps.append)
    assert version.startswith(newer)
    assert version != old
    assert int(there.path(f"{HOME}/corral.pid").read_text()) == pid, "the agent is the same process"
    assert there.path(f"{HOME}/config.yaml").read_text() == "kill_grace: 5s\n"
    assert there.versions() == [old, version] if old < version else [version, old]
    node.launches.reconcile((launch,), ())
    until(lambda: node.launches.reports(("1.1",)).reports[0].phase is LaunchPhase.EXITED, "the job has ended")
    assert node.launches.reports(("1.1",)).reports[0].exit_code == 0
    assert "survived" in there.path(f"{HOME}/logs/1.log").read_text()


def test_an_upgrade_goes_on_where_it_was_cut_off(there: Installing, newer: str) -> None:
    there.install()
    installation = there.agent().installation
    data, sha256 = b"x" * 1000, "0" * 64
    assert installation.offer("5.0", 1000, sha256) == 0
    assert installation.write("5.0", 0, "eHh4") == 3
    assert installation.offer("5.0", 1000, sha256) == 3
    assert installation.write("5.0", 0, "eHh4") == 3, "a call may be repeated"
    with pytest.raises(BackendFailed, match="damaged"):
        installation.switch("5.0", "")
    assert installation.offer("5.0", len(data), sha256) == 0, "damaged bytes are sent anew"


def test_the_agent_removes_itself_and_leaves_logs(there: Installing) -> None:
    there.install()
    there.path(f"{HOME}/server.json").write_text(json.dumps({"server": "tag1", "home": "admin@login"}))
    node = there.agent()
    node.launches.reconcile((), ())
    launch = a_launch(1, "sleep", "60")
    node.launches.launch(launch)
    until(lambda: node.launches.reports(("1.1",)).reports[0].phase is LaunchPhase.RUNNING, "the job runs")
    with pytest.raises(Conflict, match=r"1 launches run there: 1\.1"):
        remove(node.installation)
    node.launches.stop("1.1")
    until(lambda: not node.installation.state().launches, "no job runs")
    remove(node.installation)
    until(lambda: not there.path(LIBRARY).exists(), "the program is removed")
    assert not answers(node)
    assert there.path("/root/.ssh/authorized_keys").read_text() == ""
    assert not there.path(f"{HOME}/server.json").exists()
    assert there.path(f"{HOME}/logs/1.log").exists()


def test_an_agent_is_removed_over_ssh_too_but_not_while_jobs_run(there: Installing) -> None:
    there.install()
    node = there.agent()
    node.launches.reconcile((), ())
    node.launches.launch(a_launch(1, "sleep", "60"))
    until(lambda: node.launches.reports(("1.1",)).reports[0].phase is LaunchPhase.RUNNING, "the job runs")
    with pytest.raises(BackendFailed, match=r"1\.1"):
        uninstall(there.ssh, "tag1")
    assert uninstall(there.ssh, "tag1", even_if_jobs_run=True) == HOME
    assert uninstall(there.ssh, "tag1") is None, "it may be repeated"
    assert "sleep 60" in there.sh("ps ax -o args"), "its jobs run on"


def test_a_host_of_another_server_is_refused_with_whose_it_is(there: Installing) -> None:
    there.path(HOME).mkdir()
    there.path(f"{HOME}/server.json").write_text(json.dumps({"server": "tag2", "home": "admin@login:/srv/corral"}))
    with pytest.raises(BackendFailed, match="another server, admin@login:/srv/corral"):
        there.install()
    with pytest.raises(BackendFailed, match="another server"):
        uninstall(there.ssh, "tag1")


def test_a_second_name_of_a_host_changes_nothing_there_and_removes_nothing(there: Installing) -> None:
    claim = {"server": "tag1", "name": "there", "home": "root@first:/srv/corral"}
    there.install(replace(ORDER, claim=claim, node="there"))
    before = there.agent().installation.state()
    with pytest.raises(BackendFailed, match="that host is node there of this server already"):
        there.install(replace(ORDER, settings="kill_grace: 9s\n", claim={**claim, "name": "alias"}, node="alias"))
    with pytest.raises(BackendFailed, match="that host is node there of this server already"):
        uninstall(there.ssh, "tag1", "alias", even_if_jobs_run=True)
    assert there.agent().installation.state() == before
    assert "corral-server-tag1" in there.path("/root/.ssh/authorized_keys").read_text()
    assert uninstall(there.ssh, "tag1", "there") == HOME


def test_of_two_servers_that_install_one_after_the_other_the_second_leaves_no_key(there: Installing) -> None:
    claim = {"server": "tag1", "name": "there", "home": "root@first:/srv/corral"}
    there.install(replace(ORDER, claim=claim))
    with pytest.raises(BackendFailed, match="another server, root@first:/srv/corral"):
        there.install(replace(ORDER, server="tag2", public_key=f"{KEY}2", claim={**claim, "server": "tag2"}))
    assert "corral-server-tag2" not in there.path("/root/.ssh/authorized_keys").read_text()


def test_a_full_disk_is_told_and_nothing_is_half_made(there: Installing) -> None:
    there.sh(f"mkdir -p {LIBRARY} && mount -t tmpfs -o size=10m tmpfs {LIBRARY}")
    with pytest.raises(BackendFailed, match=r"the disk of .* is full: \d+ MiB are needed, and \d MiB are free"):
        there.install()
    assert there.versions() == []
    there.sh(f"umount {LIBRARY}")
    there.install()


def test_a_read_only_home_is_told(there: Installing) -> None:
    there.sh("mount -t tmpfs -o ro tmpfs /var/lib")
    with pytest.raises(BackendFailed, match="/var/lib/corral-agent is on a file system that is mounted read-only"):
        there.install()


def test_a_place_without_programs_is_told(there: Installing) -> None:
    there.sh("mkdir -p /usr/local/lib && mount -t tmpfs -o noexec tmpfs /usr/local/lib")
    with pytest.raises(BackendFailed, match="noexec"):
        there.install()
    assert there.versions() == []


def test_a_cut_connection_leaves_nothing_half_made(there: Installing) -> None:
    def cut(script: bytes, timeout_s: float) -> ShellOutput:
        return there.ssh(script[: len(script) - 1000], timeout_s) if len(script) > 1_000_000 else there.ssh(script, 9)

    with pytest.raises(BackendFailed, match="the connection was cut"):
        install(cut, ORDER)
    assert there.versions() == []
    assert not there.path(f"{LIBRARY}/current").exists()
    assert [path.name for path in there.path(LIBRARY).iterdir() if path.name != ".lock"] == ["versions"]


def test_two_at_once_do_not_mix(there: Installing) -> None:
    there.sh(f"mkdir -p {LIBRARY}/versions")
    holder = there.words("flock", f"{LIBRARY}/.lock", "sh", "-c", "echo held; read end")
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(BackendFailed, match="another installation is at work"):
            there.install()
        other.communicate(b"\n")
    there.install()


def test_a_host_without_a_new_python_says_what_to_install(there: Installing) -> None:
    there.sh(
        r"""printf '#!/bin/sh\ncase "$*" in *exit*) exit 1 ;; esac; echo 3.9\n' > /root/old; chmod +x /root/old
        for python in /usr/bin/python3* /usr/local/bin/python3*; do
            [ -e $python ] && mount --bind /root/old $python
        done
        echo ID=rocky > /etc/os-release"""
    )
    with pytest.raises(BackendFailed, match=r"newest Python is 3\.9, and .* 3\.11 or newer; .*dnf install python3\.11"):
        there.install()


def test_a_banner_before_the_answer_is_skipped(there: Installing) -> None:
    def loud(script: bytes, timeout_s: float) -> ShellOutput:
        ran = there.ssh(script, timeout_s)
        return ShellOutput('Welcome! {"failed": "not ours"}\n' + ran.said, "Last login\n" + ran.complaints)

    assert install(loud, ORDER).version == bundle_for(platform.machine(), "").version


def test_a_restricted_shell_is_told_with_what_it_said() -> None:
    def restricted(script: bytes, timeout_s: float) -> ShellOutput:
        return ShellOutput("", "This account is currently not available.\n")

    with pytest.raises(BackendFailed, match="it said `This account is currently not available`"):
        install(restricted, ORDER)


def test_a_host_that_does_not_answer_is_unreachable() -> None:
    def silent(script: bytes, timeout_s: float) -> ShellOutput:
        raise NodeUnreachable("gpu-05 did not answer in time")

    with pytest.raises(NodeUnreachable):
        install(silent, ORDER)


def test_what_a_host_answers_is_not_trusted() -> None:
    def hostile(script: bytes, timeout_s: float) -> ShellOutput:
        begin = script.split()[1].decode()
        end = begin.replace("begins", "ends")
        return ShellOutput(f'{begin}\n{{"done": {{"machine": 7, "versions": "x"}}}}\n[[[[\n{end}\n', "")

    with pytest.raises(BackendFailed, match="its architecture is 7"):
        install(hostile, ORDER)
