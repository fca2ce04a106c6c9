"""`corral config check` says what a server would make of a file."""

import json
from pathlib import Path

import pytest

from corral.cli.local import doctor
from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import Refused
from tests.cli.in_process import ran


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cluster-config.yaml"


def told(path: Path, text: str, *words: str) -> str:
    path.write_text(text)
    done = ran("config", "check", str(path), *words)
    assert done.code == 0
    return done.out + done.err


def refusal(path: Path, text: str) -> str:
    """What is said of a file with mistakes: of one in the error, of several in lines."""
    path.write_text(text)
    try:
        done = ran("config", "check", str(path))
    except Refused as refused:
        return str(refused)
    assert done.code == 2
    return done.err.removeprefix("corral: ")


def test_a_good_file_is_called_good(path: Path) -> None:
    assert told(path, "kill_grace: 5s\n") == f"{path} is valid\n"


def test_resource_names_that_no_server_would_take_are_refused_with_their_file(path: Path) -> None:
    text = "resource_names: names.toml\n"
    assert "names.toml: cannot be read" in refusal(path, text)
    path.with_name("names.toml").write_text("[[resource]]\nkey = 'acme.com/gpu'\n")
    assert "resource 'acme.com/gpu': dataType is missing" in refusal(path, text)


def test_each_mistake_has_a_line_of_its_own_whatever_finds_it(path: Path) -> None:
    text = "resource_names: names.toml\nplacement: packed\nalerts:\n- {name: foo}\nqueues:\n- {name: a, parent: b}\n"
    lines = refusal(path, text).splitlines()
    assert [line.partition(f"{path}, ")[2].partition(":")[0] for line in lines] == [
        *("line 1", "line 2", "line 4", "line 6")
    ]


def test_keys_without_an_effect_are_listed(path: Path) -> None:
    text = "allocation:\n  strategy: hybrid\n"
    (line, *_) = told(path, text).splitlines()
    assert line.startswith("note: allocation.reserved_ratio 0.3 has no effect yet")
    (remark, *_) = json.loads(told(path, text, "--json"))["remarks"]
    assert line == f"note: {remark}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "scheduling:\n  algorithm: fare-share\n",
            "line 2: scheduling.algorithm: there is no 'fare-share'; did you mean 'fair-",
        ),
        ("queues:\n- {name: a, policy: fcsf}\n", "line 2: queue a: there is no policy 'fcsf'; did you mean 'fcfs'?"),
        ("queues:\n- {name: a, parent: b}\n- {name: b, parent: a}\n", "line 2: queue a: "),
        (
            "queues:\n- {name: a, quota: {gpus: 4}}\n- {name: b, parent: a, quota: {gpus: 8}}\n",
            "line 3: queue b: its quota of gpus: 8 is",
        ),
        (
            "allocation: {strategy: dynamic}\npools:\n- {name: a, gpus: 0, users: b}\n",
            "line 1: allocation.strategy dynamic sets",
        ),
        ("pools:\n- {name: a, gpus: 0, users: x}\n- {name: b, gpus: 0, users: y}\n", "line 3: pool b: "),
        ("pools:\n- {name: a, users: x}\n- {name: b, users: y}\n", "line 3: pools a and b all get the"),
        (
            "max_temperature: 90\nplacement: packed\n",
            "line 2: placement: there is no score 'packed'; did you mean 'pack'",
        ),
        ("placement:\n  pack: 1\n  foo: 2\n", "line 1: placement: there is no score 'foo'; known: "),
    ],
)
def test_what_contradicts_itself_is_told_in_words(path: Path, text: str, message: str) -> None:
    assert refusal(path, text).startswith(f"{path}, {message}")


def test_a_file_that_is_not_there_is_no_good_file(path: Path) -> None:
    with pytest.raises(Refused, match="there is no file"):
        ran("config", "check", str(path))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server, and a machine with two GPUs."""
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path))
    node = Node("here", (Device("GPU-a", 0, "A100", 8), Device("GPU-b", 1, "A100", 8)), 0, 0)
    monkeypatch.setattr(doctor, "driver_here", lambda: doctor.DriverHere(node, "NVML"))


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            "pools:\n- {name: a, gpus: [0, 7], users: [root]}\n",
            "pool a: no GPU here matches 7 (there are 0, 1); a GPU that appears later is set apart at once",
        ),
        ("sharing:\n  9: exclusive\n", "sharing: no GPU here is 9"),
        ("sharing:\n  H100: mps\n", "sharing: no GPU here is H100"),
        ("cluster: {total_gpus: 8}\n", "cluster.total_gpus expects 8 GPUs, but there are 2"),
        (
            "policies: {enable_preemption: true}\nqueues: [{name: default}, {name: day, preempts: false}, {name: n}]\n",
            (
                "policies.enable_preemption applies to queues default, n too: the first waiting job there may stop "
                "other jobs"
            ),
        ),
        ("pools:\n- {name: a, gpus: 0, users: [nobody-such]}\n", "line 2: pool a: there is no user 'nobody-such'"),
        ("projects:\n- {name: p, users: [root, no-such]}\n", "line 2: project p: there is no user 'no-such'"),
        ("projects:\n- {name: p, user_weights: {no-such: 2}}\n", "line 2: project p: there is no user 'no-such'"),
        (
            "pools:\n- {name: a, gpus: 0, projects: [nlp]}\n",
            "pool a: no projects are defined, so anybody may use",
        ),
    ],
)
def test_what_is_named_and_not_there_is_noted_and_the_file_is_good_all_the_same(
    path: Path, text: str, note: str
) -> None:
    lines = told(path, text).splitlines()
    assert [line for line in lines[:-1] if note in line], lines
    assert lines[-1] == f"{path} is valid"
    assert any(note in remark for remark in json.loads(told(path, text, "--json"))["remarks"])


@pytest.mark.usefixtures("machine")
def test_what_is_there_is_not_noted(path: Path) -> None:
    text = "sharing: {0: exclusive, A100: mps}\nprojects:\n- {name: p, users: [root]}\n"
    text += "pools:\n- {name: a, gpus: GPU-b, projects: p}\n"
    assert told(path, text) == f"{path} is valid\n"


def test_where_the_gpus_are_not_known_that_is_noted(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "driver_here", lambda: doctor.DriverHere(None, "no driver answers"))
    assert "note: cannot check whether the GPUs it names exist: no driver answers" in told(path, "sharing: {7: mps}\n")


def test_a_file_to_begin_with_is_written_once_and_is_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = path.parent / "home"
    monkeypatch.setenv("CORRAL_HOME", str(home))
    for words, written in (([], home / "config.yaml"), ([str(path)], path)):
        done = ran("config", "init", *words)
        assert (done.code, done.out.split()[0], done.err) == (0, str(written), "")
        text = written.read_text()
        assert told(written, text) == f"{written} is valid\n"
        with pytest.raises(Refused, match="is there already, and is not overwritten"):
            ran("config", "init", *words)
        assert written.read_text() == text
    assert ran("config", "init", "-") == (0, text, "")
