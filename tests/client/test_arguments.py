"""What a Python user types first: it works, or is refused with what to write. No error comes from the inside."""

import inspect
import json
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from corral import gpu
from corral.client import Client, JobHandle, JobRow
from corral.client.submitting.arguments import job_id_of, whole
from corral.client.submitting.options import RequestOptions
from corral.client.submitting.request import submission
from corral.core.model.errors import CorralError, NotFound, Refused
from corral.core.model.jobs.phase import Phase
from corral.gpu.monitor import GPUMonitor
from corral.wire import to_plain
from tests.client.conftest import Answer, Script

WRONG: tuple[Any, ...] = (
    None, True, 5, -1, 10**400, 0.5, float("nan"), float("inf"), "", "x", "\udcff", "a/b", b"x", [], [1], [None],
    {}, {"a": 1}, {1: 2}, {"a": None}, {"a": b"x"}, object(), {3}, (b"x",), range(3),
)  # fmt: skip
"""Values of every kind; each method takes some of them, and must refuse the others itself."""

TAKEN = {"ids": "1", "job_id": "1", "work": ["true"], "submissions": [], "pid": 1, "name": "INT", "verb": "cancel"}
TAKEN |= {"device": "0", "profile": "1g.10gb", "node": "n", "token_id": "t", "uuid": "GPU-a", "offset": 0}
TAKEN |= {"rows": 1, "columns": 1, "policies": "sjf"}
TAKEN |= {"alert_id": "1", "silence_id": "1", "match": "node=n", "duration_s": 60.0, "url": "json://localhost"}
TAKEN |= {"task_id": "1", "spec": {}, "status": "completed", "experiments": 1, "experiment_id": "1", "number": 1}
TAKEN |= {"parameters": {}, "changes": "running"}
"""What the arguments that must be given are while another one is wrong."""


class Numpy:
    """As a whole number of numpy behaves."""

    def __index__(self) -> int:
        return 17


def no(*_: object) -> Answer:
    return 400, {"error": {"message": "no", "kind": "refused", "field": None}}


def public(thing: object) -> list[tuple[str, Callable[..., Any]]]:
    return [
        (f"{type(thing).__name__}.{name}", method)
        for name, method in inspect.getmembers(thing, inspect.ismethod)
        if not name.startswith("_")
    ]


def blamed(call: Callable[[], Any]) -> str | None:
    """The error that is none of Corral's, None if it went well or was refused."""
    try:
        found = call()
        if inspect.isgenerator(found):
            list(found)
    except CorralError as error:
        return None if str(error) else "an error without a message"
    except Exception as error:  # what the test is for
        return f"{type(error).__name__}: {error}"
    return None


def wrong_calls(method: Callable[..., Any]) -> dict[str, str]:
    """Of a method with each of its arguments wrong in turn: the errors that are none of Corral's."""
    found = {}
    parameters = inspect.signature(method).parameters.values()
    needed = {one.name: TAKEN[one.name] for one in parameters if one.default is inspect.Parameter.empty}
    for name in [one.name for one in parameters if one.name not in RequestOptions.__annotations__] or []:
        for value in WRONG:
            error = blamed(lambda name=name, value=value: method(**{**needed, name: value}))  # type: ignore[misc]
            if error is not None:
                found[f"{name}={value!r:.40}"] = error
    return found


def test_every_method_of_the_client_refuses_what_it_cannot_take(home: Path, script: Script) -> None:
    script.answers = defaultdict(lambda: no)
    with Client(home) as client:
        handle = JobHandle(client, "1")
        parts = [name for name, member in vars(Client).items() if isinstance(member, cached_property)]
        assert len(parts) > 8
        methods = [pair for one in (client, handle, *(getattr(client, part) for part in parts)) for pair in public(one)]
        found = {name: wrong for name, method in methods if (wrong := wrong_calls(method))}
    assert found == {}


@pytest.mark.parametrize("name", list(RequestOptions.__annotations__))
def test_every_option_is_taken_or_refused_by_its_name(name: str) -> None:
    def sent(value: object) -> None:
        options: Any = {name: value}
        json.dumps(to_plain(submission(["true"], options)), allow_nan=False).encode()

    found = {repr(value)[:40]: error for value in WRONG if (error := blamed(lambda value=value: sent(value)))}  # type: ignore[misc]
    assert found == {}


@pytest.mark.parametrize("argument", ["home", "url", "token"])
def test_the_client_itself_refuses_what_names_no_server(argument: str) -> None:
    given: dict[str, Any]
    for value in WRONG:
        given = {"url": "http://127.0.0.1:1", argument: value} if argument == "token" else {argument: value}
        assert blamed(lambda: Client(**given)) is None, value  # noqa: B023


def test_the_functions_for_gpus_refuse_what_they_cannot_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path))
    monkeypatch.setattr(GPUMonitor, "query_gpus", lambda *_, **__: None)
    monitor = GPUMonitor()
    found = {}
    calls: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (gpu.lease, {"gpus": 1, "min_memory_mb": None, "timeout_seconds": 0.0, "name": None}),
        (gpu.check_gpu_availability, {"required_gpus": 1, "min_memory_mb": None}),
        (gpu.select_gpus_for_task, {"required_gpus": 0, "min_memory_mb": 1}),
        (gpu.estimate_gpu_requirements, {"task_config": {}}),
        (monitor.get_available_gpus, {"min_memory_mb": None, "max_utilization": 50}),
        (monitor.get_gpu_info, {"gpu_index": 0}),
        (monitor.get_average_utilization, {"index": 0, "window_seconds": 60}),
    ]
    for function, given in calls:
        for name in given:
            for value in WRONG:
                error = blamed(lambda: function(**{**given, name: value}))  # noqa: B023
                if error is not None and not error.startswith("RuntimeError: no GPU"):
                    found[f"{function.__name__}({name}={value!r:.40})"] = error
    for value in (None, True, "x", b"x", [], {}, float("nan"), 0, -1):
        with pytest.raises(Refused, match="interval_seconds"):
            monitor.start_monitoring(value)  # type: ignore[arg-type]
    for name in ("timeout_seconds", "check_interval"):
        with pytest.raises(Refused, match=name):
            gpu.wait_for_gpu_availability(1, **{name: "x"})  # type: ignore[arg-type]
    assert found == {}


@pytest.mark.parametrize("job", [17, "17", Numpy(), JobRow(id="17", phase=Phase.RUNNING)])
def test_a_job_is_named_by_text_by_number_and_by_what_has_its_id(home: Path, script: Script, job: Any) -> None:
    script.answers["POST /jobs/17/cancel"] = 200, {"ids": ["17"]}
    script.answers["POST /jobs/wait"] = 200, {"done": True, "jobs": [{"id": "17", "phase": "SUCCEEDED"}]}
    with Client(home) as client:
        assert client.jobs.cancel(job) == ("17",)
        assert client.wait(job) == client.wait([job])
    assert script.asked[-1][2]["ids"] == ["17"]
    assert submission(["true"], {"after": job}).after == submission(["true"], {"after": [job]}).after == ("17",)


@pytest.mark.parametrize("value", [True, None, 1.0, b"1", {}, object()])
def test_what_is_no_id_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(Refused, match=r"must be the id of a job; write one such as 17"):
        job_id_of(value)


def test_true_is_no_number() -> None:
    with pytest.raises(Refused, match="must be a whole number"):
        whole(True, "tail")


def test_numbers_in_a_command_and_in_the_environment_are_their_text(tmp_path: Path) -> None:
    read = submission(["python3", 5, 0.1, tmp_path], {"env": {"A": 1, "B": 0.5}})
    assert read.command == ("python3", "5", "0.1", str(tmp_path))
    assert (read.env["A"], read.env["B"]) == ("1", "0.5")


@pytest.mark.parametrize("word", [None, b"x", True, ["a"]])
def test_a_word_of_a_command_that_is_no_text_is_refused(word: Any) -> None:
    with pytest.raises(Refused, match=r"^command: .* must be text or a number; write one such as '5'"):
        submission(["python3", word], {})


def test_a_parameter_may_have_one_value_and_an_array_be_a_range() -> None:
    swept = submission(["true"], {"params": {"lr": 0.1, "seed": range(2)}}).sweep
    assert swept is not None
    assert swept.params == {"lr": ("0.1",), "seed": ("0", "1")}
    array = submission(["true"], {"array": range(5)}).array
    assert array is not None
    assert array.indices == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"array": 5}, r"^array: 5 is one number; for so many jobs write '0-4' or range\(5\)"),
        ({"gpu_mem": 20}, r"^gpu_mem: 20 is of type int, and must be text; write one such as '20G'"),
        ({"time": [1]}, r"^time: .* must be text or a number; write one such as '2h'"),
        ({"params": {"lr": [None]}}, r"^params: lr: None is of type NoneType"),
        ({"params": 5}, r"^params: 5 .* must be a mapping"),
        ({"env": {"A": b"x"}}, r"^env: A: b'x' is of type bytes"),
        ({"zip": True}, r"^zip pairs the values of parameters, but there are none; add params"),
        ({"hold": "no"}, r"^hold: 'no' .* must be True or False"),
    ],
)
def test_what_has_no_plain_meaning_is_refused_with_what_to_write(options: Any, message: str) -> None:
    with pytest.raises(Refused, match=message):
        submission(["true"], options)


def test_one_name_in_place_of_a_list_is_not_taken_letter_by_letter() -> None:
    assert submission(["true"], {"device": "GPU-a"}).request.device_uuids == ("GPU-a",)
    assert submission(["true"], {"avoid": "sft"}).request.avoid_jobs == ("sft",)


def test_another_name_for_the_time_of_a_wait_is_refused_with_the_right_one(home: Path) -> None:
    with Client(home) as client:
        with pytest.raises(Refused, match="did you mean 'timeout_s'"):
            JobHandle(client, "1").wait(timeout=1)  # type: ignore[call-arg]
        with pytest.raises(Refused, match="did you mean 'timeout_s'"):
            client.wait("1", timeout=1)  # type: ignore[call-arg]


def test_a_finished_submission_takes_no_more_options(home: Path) -> None:
    with Client(home) as client, pytest.raises(Refused, match=r"^gpus: a finished submission has its options"):
        client.submit(submission(["true"], {}), gpus=2)


@pytest.mark.parametrize("kind", ["refused", "not_found"])
def test_what_the_server_says_of_flags_is_told_in_names_of_options(home: Path, script: Script, kind: str) -> None:
    said = "--param: a has no values; add --max-running, or see `corral submit --param` and --all"
    told = "params: a has no values; add max_running, or see `corral submit --param` and --all"
    script.answers["POST /jobs"] = 400, {"error": {"message": said, "kind": kind, "field": "params"}}
    with Client(home) as client:
        with pytest.raises(Refused) as refused:
            client.submit(["true"], params={"a": 1})
        assert (str(refused.value), type(refused.value) is NotFound) == (told, kind == "not_found")
        with pytest.raises(Refused) as refused:
            client.submit(submission(["true"], {}))
        assert str(refused.value) == said
