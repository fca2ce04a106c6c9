"""Command lines for `ssh`, and what its messages mean. The messages are OpenSSH's own."""

import subprocess
from pathlib import Path

import pytest

from corral.engines.hosts.ssh import FIND_AGENT, SshRoute, failure_of, fingerprint_in

ROUTE = SshRoute("admin@gpu-05", Path("/run/c"), config="/etc/corral/ssh_config", identity=Path("/srv/key"))

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
The fingerprint for the ED25519 key sent by the remote host is
SHA256:tyYyTA.
Offending ED25519 key in /root/.ssh/known_hosts:7
Host key for gpu-05 has changed and you have requested strict checking.
Host key verification failed.
"""


def options_of(words: list[str]) -> dict[str, str]:
    """What OpenSSH itself makes of a command line, without connecting."""
    asked = [*words[:1], "-G", *(word for word in words[1:] if word != "-T")]
    asked = [word for word in asked if word not in (ROUTE.config, "-F")]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in said.splitlines() if " " in line)


@pytest.mark.parametrize("words", [ROUTE.first_session("true"), ROUTE.further_session("true")])
def test_no_session_asks_forwards_or_runs_anything_here(words: list[str]) -> None:
    found = options_of(words)
    assert found["batchmode"] == "yes"
    assert found["forwardagent"] == found["forwardx11"] == found["permitlocalcommand"] == "no"
    assert found["clearallforwardings"] == "yes"


def test_a_first_session_checks_the_host_key_strictly_unless_a_person_said_otherwise() -> None:
    assert options_of(ROUTE.first_session("true"))["stricthostkeychecking"] == "true"
    assert options_of(ROUTE.first_session("true", accept_new=True))["stricthostkeychecking"] == "accept-new"


def test_a_further_session_never_makes_a_connection_of_its_own() -> None:
    assert options_of(ROUTE.further_session("true"))["proxycommand"] == "false"


def test_the_first_session_of_an_installation_uses_the_keys_of_the_account() -> None:
    assert "/srv/key" in ROUTE.first_session("true")
    assert "/srv/key" not in ROUTE.single_session("true")


def test_the_command_for_the_agent_is_one_for_any_login_shell() -> None:
    found = subprocess.run(FIND_AGENT, shell=True, capture_output=True, text=True, env={"PATH": "", "HOME": "/nowhere"})
    assert found.returncode == 127 or "sh" in found.stderr


@pytest.mark.parametrize(
    ("status", "said", "reason", "by_person"),
    [
        (
            255,
            "admin@gpu-05: Permission denied (publickey,password).",
            (
                "gpu-05 does not accept the keys of the server's account (it accepts publickey,password); passwords "
                "are never asked for: add a key there, so that "
                "`ssh -o BatchMode=yes gpu-05 true` works for that account"
            ),
            True,
        ),
        (
            255,
            CHANGED,
            ("the host key of gpu-05 has changed; if that was intended, remove the old key: ssh-keygen -R gpu-05"),
            True,
        ),
        (255, "Host key verification failed.", "the host key of gpu-05 is unknown", True),
        (
            255,
            "ssh: connect to host gpu-05 port 22: No route to host",
            "gpu-05 cannot be reached: ssh: connect to host gpu-05 port 22: No route to host",
            False,
        ),
        (
            255,
            "ssh: Could not resolve hostname gpu-05: Name or service not known",
            "gpu-05 cannot be reached: ssh: Could not resolve hostname gpu-05: Name or service not known",
            False,
        ),
        (127, "sh: 1: exec: corral: not found", "Corral is not installed on gpu-05", True),
        (None, "", "gpu-05 did not answer in time", False),
        (
            1,
            "This account is currently not available.",
            "on gpu-05 the agent cannot be joined: This account is currently not available",
            True,
        ),
    ],
)
def test_a_failure_says_what_happened_and_who_can_mend_it(
    status: int | None, said: str, reason: str, by_person: bool
) -> None:
    failure = failure_of("gpu-05", status, said)
    assert (failure.reason, failure.by_person) == (reason, by_person)


def test_an_agent_that_does_not_run_is_told_apart_from_one_that_is_not_installed() -> None:
    failure = failure_of("gpu-05", 69, "no agent of Corral answers at /var/lib/corral-agent/agent.sock: Refused")
    assert failure.not_installed
    assert not failure.by_person


def test_messages_of_a_host_cannot_steer_a_terminal() -> None:
    assert "\x1b" not in failure_of("gpu-05", 1, "\x1b[2J pay 1 coin").reason


def test_the_fingerprint_is_the_one_that_the_host_showed() -> None:
    said = "debug1: Connection established.\ndebug1: Server host key: ssh-ed25519 SHA256:YEFM2lltwf+UK129z\n"
    assert fingerprint_in(said) == "ssh-ed25519 SHA256:YEFM2lltwf+UK129z"
    assert fingerprint_in("debug1: nothing") is None


def test_only_the_log_names_the_file_with_an_old_key() -> None:
    failure = failure_of("gpu-05", 255, CHANGED)
    assert "known_hosts" not in failure.reason
    assert failure.place == "/root/.ssh/known_hosts:7"
