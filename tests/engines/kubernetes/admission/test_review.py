"""What an API server asks is read strictly, and what it is told has its form."""

import base64
import json
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.engines.kubernetes.admission.review import MOST_CHARACTERS, allowed, read_review, refused
from corral.engines.kubernetes.admission.webhook_file import webhook_configurations
from tests.engines.kubernetes.manifests import pod


def review(**changes: Any) -> bytes:
    request = {"uid": "r1", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": "team"}
    request |= {"object": pod("p", "other"), **changes}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def test_the_namespace_is_that_of_the_request_and_a_generated_name_is_none_yet() -> None:
    made = pod("p", "other")
    made["metadata"] = {"generateName": "train-"}
    found = read_review(review(object=made)).pod["metadata"]
    assert (found["namespace"], found["name"]) == ("team", "train-")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b"[]",
        b'{"request": 5}',
        review(uid=7),
        review(operation="DELETE"),
        review(kind={"kind": "Node"}),
        review(object=None),
        review().replace(b"k8s.io/v1", b"k8s.io/v1beta1", 1),
    ],
)
def test_what_is_no_review_of_a_new_pod_is_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        read_review(body)


def test_an_answer_is_about_its_question_and_its_words_can_be_printed() -> None:
    asked = read_review(review())
    answer = json.loads(allowed(asked, patch=[{"op": "add"}], warnings=["a\x1b[2J" + "x" * 500]))["response"]
    assert (answer["uid"], answer["allowed"], answer["patchType"]) == ("r1", True, "JSONPatch")
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "add"}]
    assert answer["warnings"][0].startswith("a\\x1b[2J")
    assert len(answer["warnings"][0]) == MOST_CHARACTERS
    no = json.loads(refused(asked, "why"))["response"]
    assert (no["allowed"], no["status"]["message"]) == (False, "why")


@pytest.mark.parametrize(
    ("url", "policy", "timeout_s", "words"),
    [
        ("http://10.0.0.1", "Ignore", 3, "over HTTPS alone"),
        ("https://10.0.0.1", "Never", 3, "Ignore or Fail"),
        ("https://10.0.0.1", "Fail", 31, "from 1 to 30"),
    ],
)
def test_no_configuration_is_printed_that_an_api_server_would_refuse(
    url: str, policy: str, timeout_s: int, words: str
) -> None:
    with pytest.raises(Refused, match=words):
        webhook_configurations(url, b"ca", failure_policy=policy, timeout_s=timeout_s)
