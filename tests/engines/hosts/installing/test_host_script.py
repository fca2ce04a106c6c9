"""One stream has the script, the program and its data, for any shell; answers are read out of whatever else is said."""

import hashlib
import inspect
import shutil
import subprocess

import pytest

from corral.engines.hosts.installing.host_script import HostAnswer, answer_of, script_of

SHELLS = [one for one in (["sh"], ["bash"], ["dash"], ["busybox", "sh"], ["ksh"], ["zsh"]) if shutil.which(one[0])]
ECHO = """import hashlib
def main(order, stream):
    print(hashlib.sha256(stream.read()).hexdigest(), order["word"])
"""


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_any_shell_hands_the_whole_stream_on(shell: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "getsource", lambda _: ECHO)
    payload = bytes(range(256)) * 10_000
    script = script_of({"word": "it's"}, payload)
    done = subprocess.run([*shell, "-s"], input=script.data, capture_output=True, timeout=60)
    said = done.stdout.decode()
    assert said.startswith(f"{script.begin}\n"), done.stderr
    assert said.endswith(f"it's\n{script.end}\n")
    assert hashlib.sha256(payload).hexdigest() in said


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ('{"step": "x"}\n{"done": {"a": 1}}\nEND\n', HostAnswer(done={"a": 1})),
        ('{"failed": "the disk\\u001b[2J is full"}\nEND\n', HostAnswer(failed="the disk\\x1b[2J is full")),
        ('{"done": {"a": 1}}\n', None),
        ('{"done": 7}\n[[[\n"x"\nEND\n', None),
        ("", None),
    ],
)
def test_an_answer_stands_between_the_marks(said: str, answer: HostAnswer | None) -> None:
    script = script_of({})
    said = f"Welcome\n{script.begin}\n{said.replace('END', script.end)}"
    found = answer_of(script, said, "")
    if answer is None:
        assert found.failed == "the connection ended before the work there was done"
    else:
        assert found == answer


@pytest.mark.parametrize(
    "said", ['{"no_python": "3.' + "9" * 5000 + '"}', '{"done": ' + "[" * 50_000, '{"failed": "\\ud800"}']
)
def test_an_answer_that_breaks_its_reader_is_a_failure_of_that_host(said: str) -> None:
    script = script_of({})
    found = answer_of(script, f"{script.begin}\n{said}\n{script.end}\n", "")
    assert found.failed is not None
    assert found.failed.isprintable()
