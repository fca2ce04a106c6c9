"""The printed command of a model service requests the same service when somebody runs it."""

from typing import Any

import pytest

from corral.cli.reading import read
from corral.core.model.errors import Refused
from corral.features.services.commands import DeployCommand
from corral.features.services.run_commands.deploy_flags import service_of_flags
from corral.features.services.service_wanted import ModelClaim, ServiceWanted, deploy_words

CHAT = {"name": "chat", "namespace": "serving", "model_name": "m", "runtime_name": "r"}
OF_CHAT = ("chat", "--via", "ome", "--model", "m", "--runtime", "r")


def parsed(*words: str) -> DeployCommand:
    given = read(DeployCommand, "deploy", words).value()
    assert isinstance(given, DeployCommand)
    return given


@pytest.mark.parametrize("via", ["ome", "kserve"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"gpus": 4, "parameters": {"tp-size": "2", "pp-size": "2", "trust-remote-code": True, "empty": ""}},
        {"env": {"HF_TOKEN": "a secret", "EMPTY": ""}},
        {"claim": ModelClaim("models")},
        {"queue": "night", "project": "chat"},
        {"claim": ModelClaim("models", "llama/3")},
        {"model_name": "--kubeconfig=/of/another", "runtime_name": "-r", "parameters": {"chat": "--x $(Y)"}},
    ],
)
def test_the_printed_command_requests_the_same_service(
    via: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ServiceWanted(**{**CHAT, **fields})
    for name, value in wanted.env.items():
        monkeypatch.setenv(name, value)
    program, command, *words = deploy_words(via, wanted)
    assert (program, command, "secret" in " ".join(words)) == ("corral", "deploy", False)
    assert service_of_flags(parsed(*words)) == (via, wanted)


def test_the_place_of_a_claim_is_requested_too() -> None:
    wanted = ServiceWanted("chat", "serving", "m", "r", claim=ModelClaim("models", "", "/raid/llama"))
    assert service_of_flags(parsed(*deploy_words("ome", wanted)[2:])) == ("ome", wanted)


def test_values_that_are_no_text_are_written_as_the_runtime_gets_them() -> None:
    wanted = ServiceWanted("chat", "serving", "m", "r", {"sizes": [1, 2], "low": 1e-05, "map": {"a": None}})
    words = deploy_words("ome", wanted)
    assert [words[at + 1] for at, word in enumerate(words) if word == "--param"] == [
        "sizes=[1, 2]",
        "low=1e-05",
        'map={"a": null}',
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--via", "ome", "--model", "m", "--runtime", "r"), "NAME is missing"),
        (("chat", "--model", "m", "--runtime", "r"), "--via is missing"),
        (("chat", "--via", "ome", "--model", "m"), "--runtime is missing"),
        ((*OF_CHAT, "--experiment", "3"), "name the task with --from"),
        ((*OF_CHAT, "--mount-path", "/m"), "name the claim with --claim"),
        (("chat", "--via", "kserve", *OF_CHAT[3:], "--claim", "c", "--mount-path", "/m"), "at /mnt/models"),
        ((*OF_CHAT, "--env", "NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE is not set here"),
        ((*OF_CHAT, "--env", "=x"), "sets nothing"),
    ],
)
def test_flags_that_make_no_service_are_refused(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(Refused) as refused:
        service_of_flags(parsed(*words))
    assert why in str(refused.value)
