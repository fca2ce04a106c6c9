"""A server on TCP with a certificate, used from the command line by the holders of tokens."""

import json
import os
import pwd
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.certificates import make_certificate, needs_openssl
from tests.e2e.box import Box, described, line_of

NOBODY = pwd.getpwnam("nobody")


class Shared:
    """A box whose server answers over https."""

    def __init__(self, box: Box, certificate: Path, key: Path) -> None:
        self.box, self.certificate, self.key = box, certificate, key
        box.home.chmod(0o755)
        self.url = ""

    def up(self) -> None:
        tls = ("--tls-cert", str(self.certificate), "--tls-key", str(self.key))
        self.box.ok("up", "--detach", "--mock", str(self.box.mock), "--listen", "127.0.0.1:0", *tls)
        self.url = re.findall(r"https://\S+", (self.box.home / "server.log").read_text())[-1]

    def environ(self, token: str) -> dict[str, str]:
        return {"CORRAL_URL": self.url, "CORRAL_TOKEN": token, "CORRAL_CA_FILE": str(self.certificate)}


@pytest.fixture
def shared(new_box: Callable[[str], Box], tmp_path: Path) -> Shared:
    shared = Shared(new_box(described(2)), *make_certificate(tmp_path))
    shared.up()
    return shared


@needs_openssl
@pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's runs jobs as others")
def test_a_job_submitted_over_https_runs_as_the_user_of_the_token_also_after_a_restart(shared: Shared) -> None:
    box = shared.box
    made = json.loads(box.ok("token", "create", "--user", NOBODY.pw_name, "--expires", "1h", "--json"))
    assert list(made) == ["id", "token", "user", "scope", "expires_at"]
    environ = shared.environ(made["token"])
    groups = dict.fromkeys([NOBODY.pw_gid, *os.getgrouplist(NOBODY.pw_name, NOBODY.pw_gid)])
    expected = f"{NOBODY.pw_uid}\n{NOBODY.pw_gid}\n{' '.join(map(str, groups))}\n"
    identify = ("run", "--gpus", "1", "--workdir", "/", "--", "sh", "-c", "id -u; id -g; id -G")
    assert box.ok(*identify, **environ) == expected
    env = box.ok("run", "--gpus", "0", "--workdir", "/", "--", "sh", "-c", "env", **environ)
    assert made["token"] not in env
    assert "CORRAL_URL" not in env
    box.down()
    shared.up()
    environ = shared.environ(made["token"])
    assert box.ok(*identify, **environ) == expected
    (row,) = json.loads(box.ok("token", "list", "--json", **environ))
    assert (row["id"], row["user"], row["scope"], row["state"]) == (made["id"], NOBODY.pw_name, "submit", "good")
    assert row["last_used_at"] is not None
    assert box.ok("token", "revoke", made["id"]) == f"token {made['id']} was revoked\n"
    refused = box.run("ps", cwd=None, **environ)
    assert refused.returncode == 1
    assert f"token {made['id']} was revoked" in refused.stderr
    assert made["token"] not in (box.home / "server.log").read_text()


@needs_openssl
def test_a_token_is_printed_alone_and_what_it_is_said_beside(shared: Shared) -> None:
    done = shared.box.run("token", "create", "--scope", "read", "--expires", "never")
    assert re.fullmatch(r"corral_[0-9a-f]{64}\n", done.stdout)
    assert "with scope read, until it is revoked. It is not shown again" in done.stderr
    listing = shared.box.ok("token", "list").splitlines()
    assert listing[0].split() == ["ID", "USER", "SCOPE", "CREATED", "EXPIRES", "LAST", "USED", "STATE"]
    assert listing[1].split()[-3:] == ["never", "never", "good"]
    environ = shared.environ(done.stdout.strip())
    refused = shared.box.run("submit", "--", "true", cwd=None, **environ)
    assert (refused.returncode, "needs a token of scope submit" in refused.stderr) == (1, True)
    _check_doctor_of_a_client(shared, environ)


def _check_doctor_of_a_client(shared: Shared, environ: dict[str, str]) -> None:
    """It tells of the server and of what a client needs, and nothing of the machine that the client is on."""

    def findings(**changed: str) -> dict[str, tuple[str, str]]:
        elsewhere = {**environ, "CORRAL_HOME": str(shared.box.home / "none"), **changed}
        done = shared.box.run("doctor", "--json", cwd=None, **elsewhere)
        return {one["about"]: (one["state"], one["found"]) for one in json.loads(done.stdout)}

    well = findings()
    assert list(well) == ["packages", "server", "TLS", "token", "nodes", "GPUs"]
    assert {state for state, _ in well.values()} == {"ok"}
    assert str(shared.certificate) in well["TLS"][1]
    assert findings(CORRAL_TOKEN="corral_" + "0" * 64)["token"][0] == "failure"
    assert findings(CORRAL_CA_FILE="")["TLS"][0] == "failure"
    assert findings(CORRAL_URL="https://127.0.0.1:1")["server"][0] == "failure"


def test_a_server_that_other_machines_reach_wants_a_certificate_or_an_explicit_wish(
    new_box: Callable[[str], Box],
) -> None:
    box = new_box(described(1))
    up = ("up", "--mock", str(box.mock), "--listen", "0.0.0.0:0")
    refused = box.run(*up, "--detach")
    assert refused.returncode == 1
    assert "--tls-cert and --tls-key" in refused.stderr
    assert "--insecure" in refused.stderr
    alone = box.run("up", "--detach", "--mock", str(box.mock), "--insecure")
    assert "say how --listen HOST:PORT is answered" in alone.stderr
    with box.start(*up, "--insecure") as server:
        assert "without encryption" in line_of(server.stderr, "WARNING")
        line_of(server.stderr, "serving on")
        box.down()
