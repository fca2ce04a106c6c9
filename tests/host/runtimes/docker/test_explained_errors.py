"""What Docker and runc say is told in plain words. The sayings are those of dockerd 20.10 and runc 1.1."""

import pytest

from corral.host.runtimes.docker.explained_errors import CANNOT_RUN, FAILED, NOT_FOUND, explained
from corral.host.runtimes.docker.records import Fault

_RUNC = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (
            _RUNC + 'exec: "prog": executable file not found in $PATH: unknown',
            NOT_FOUND,
            "command not found in the image",
        ),
        (_RUNC + 'exec: "/a/b": stat /a/b: no such file or directory: unknown', NOT_FOUND, "cannot run prog"),
        (_RUNC + 'exec: "/a": permission denied: unknown', CANNOT_RUN, "executable (chmod +x)?"),
        (_RUNC + 'exec: "/a": is a directory: unknown', CANNOT_RUN, "executable (chmod +x)?"),
        (_RUNC + "exec /prog: exec format error: unknown", CANNOT_RUN, "machines of another kind"),
        (
            _RUNC + 'chdir to cwd ("/w") set in config.json failed: permission denied: unknown',
            CANNOT_RUN,
            "cannot enter the working directory /w in the container: permission denied",
        ),
        ('could not select device driver "" with capabilities: [[gpu]]', FAILED, "the NVIDIA container toolkit is"),
        ("network fabric not found", FAILED, "this node's Docker has no network fabric"),
        ("unable to find user eve: no matching entries in passwd file", FAILED, "knows no user or group eve"),
    ],
)
def test_what_a_retry_cannot_mend_is_told_in_plain_words(said: str, code: int, words: str) -> None:
    refusal = explained(said, "repo/train:1", "prog")
    assert (refusal.code, refusal.fault) == (code, Fault.LASTING)
    assert words in refusal.reason


def test_what_is_not_known_is_told_as_docker_says_it_and_may_be_tried_again() -> None:
    refusal = explained("no space left on device", "repo/train:1", "prog")
    assert (refusal.code, refusal.fault) == (FAILED, Fault.JOB)
    assert refusal.reason == "Docker cannot run the container: no space left on device"
