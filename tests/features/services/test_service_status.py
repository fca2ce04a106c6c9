"""How an InferenceService stands, by the status of its operator."""

from typing import Any

import pytest

from corral.features.services.service_status import state_of


def service(*conditions: tuple[str, str], why: str = "", **status: Any) -> dict[str, Any]:
    listed = [{"type": kind, "status": state, "message": why} for kind, state in conditions]
    return {"status": {"conditions": listed, "observedGeneration": 7, **status}}


def test_a_service_is_ready_by_its_condition_alone() -> None:
    state = state_of(service(("Ready", "True"), url="http://llama.team.example.com"))
    assert (state.state, state.url) == ("ready", "http://llama.team.example.com")


def test_not_ready_is_normal_while_a_model_loads() -> None:
    state = state_of(service(("Ready", "False"), ("EngineReady", "False"), why="0/1 pods are available"))
    assert (state.state, state.why) == ("loading", "EngineReady is False: 0/1 pods are available")
    assert state_of({}).why == "its operator has said nothing yet"
    assert state_of(service(("Ready", "Unknown"))).why == "Ready is not there yet"


@pytest.mark.parametrize("transition", ["BlockedByFailedLoad", "InvalidSpec"])
def test_a_load_that_cannot_succeed_fails_at_once_with_the_reason(transition: str) -> None:
    info = {"reason": "ModelLoadFailed", "message": "CUDA out of memory", "exitCode": 137}
    state = state_of(service(("Ready", "False"), modelStatus={"transitionStatus": transition, "lastFailureInfo": info}))
    assert state.state == "failed"
    assert state.why == f"{transition}: ModelLoadFailed: CUDA out of memory (exit code 137)"


def test_a_new_load_that_fails_fails_the_deployment_though_an_old_one_serves() -> None:
    state = state_of(service(("Ready", "True"), modelStatus={"transitionStatus": "BlockedByFailedLoad"}))
    assert (state.state, state.why) == ("failed", "BlockedByFailedLoad")


@pytest.mark.parametrize(
    "status", [None, [], "x", {"conditions": "x"}, {"conditions": [7, {"type": 1}]}, {"modelStatus": 3}]
)
def test_a_status_that_makes_no_sense_is_not_ready(status: Any) -> None:
    assert state_of({"status": status}).state == "loading"


def test_words_of_others_do_no_harm_in_a_terminal() -> None:
    state = state_of(service(("Ready", "False"), why="\x1b[2J" + "x" * 9000))
    assert "\x1b" not in state.why
    assert len(state.why) < 700
