"""Calls of kube-scheduler are read in any case of their keys and in both forms; what is no call is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.errors import Refused
from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.extender import call_forms
from corral.engines.kubernetes.extender.call_forms import Filtered

READERS = (call_forms.read_nodes_call, call_forms.read_bind_call, call_forms.read_preempt_call)
POD = {"metadata": {"name": "a", "namespace": "team", "uid": "u"}}


def written(data: Any) -> bytes:
    return json.dumps(data).encode()


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"odd": 'a "quoted" }]'}}, "status": {"images": [{"names": ["x"]}]}}


@pytest.mark.parametrize("keys", [("Pod", "Nodes", "NodeNames"), ("pod", "nodes", "nodenames")])
def test_names_are_read_whatever_the_case_of_the_keys(keys: tuple[str, str, str]) -> None:
    call = call_forms.read_nodes_call(written(dict(zip(keys, (POD, None, ["n1", "n2"]), strict=True))))
    assert (call.names, call.nodes, call.pod) == (("n1", "n2"), None, POD)


def test_an_answer_has_the_form_of_its_call() -> None:
    answer = Filtered(["n2"], {"n1": "full"}, {"n3": "too small"})
    by_name = call_forms.read_nodes_call(written({"Pod": POD, "Nodes": None, "NodeNames": ["n1", "n2", "n3"]}))
    assert json.loads(call_forms.filtered(by_name, answer)) == {
        "Nodes": None,
        "NodeNames": ["n2"],
        "FailedNodes": {"n1": "full", "n3": "too small"},
        "FailedAndUnresolvableNodes": {"n3": "too small"},
        "Error": "",
    }
    items = [node("n1"), node("n2"), node("n3")]
    whole = call_forms.read_nodes_call(
        written({"Pod": POD, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None})
    )
    assert whole.names == ("n1", "n2", "n3")
    told = json.loads(call_forms.filtered(whole, answer))
    assert told["NodeNames"] is None
    assert told["Nodes"]["items"] == [node("n2")]


@pytest.mark.parametrize("nodes", [None, {"items": None}, {"items": []}, {}])
def test_a_call_without_nodes_has_none(nodes: Any) -> None:
    assert call_forms.read_nodes_call(written({"Pod": POD, "Nodes": nodes, "NodeNames": None})).names == ()


def test_a_binding_names_its_pod_by_uid() -> None:
    call = call_forms.read_bind_call(written({"PodName": "a", "PodNamespace": "team", "PodUID": "u", "Node": "n1"}))
    assert (call.pod, call.node) == (PodRef("team", "a", "u"), "n1")


def test_victims_are_read_in_both_forms_and_told_by_uid() -> None:
    meta = {"n1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 2}}
    whole = {"n1": {"Pods": [{"metadata": {"uid": "v"}, "spec": {}}], "NumPDBViolations": 2}}
    for form in (
        {"NodeNameToVictims": None, "NodeNameToMetaVictims": meta},
        {"NodeNameToVictims": whole, "NodeNameToMetaVictims": None},
    ):
        call = call_forms.read_preempt_call(written({"Pod": POD, **form}))
        assert call.victims["n1"].uids == ("v",)
        assert json.loads(call_forms.preempted(call.victims)) == {"NodeNameToMetaVictims": meta}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"null", b"[]", b"{", b'{"Pod"', b'{"Pod":', b'{"Pod":{}} x', b"\xff\xfe", b'{"Pod":{},}', b"{1:2}"),
        b'{"Pod":' + b"[" * 100_000,
        b'{"Nodes":{"items":[' + b'{"a":' * 100_000,
        b'{"PodName":1' + b"0" * 5_000 + b"}",
        b'{"Pod":{},"Nodes":{"items":[1]}}',
        b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":7}}]}}',
        b'{"Pod":{},"NodeNames":[7],"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":{}}]}}}',
        b'{"Pod":7,"NodeNames":[]}',
    ],
)
def test_what_is_no_call_is_refused(read: Any, body: bytes) -> None:
    with pytest.raises(Refused):
        read(body)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(body: bytes) -> None:
    for read in READERS:
        try:
            read(body)
        except Refused:
            continue


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.lists(st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), unique=True, max_size=5))
def test_nodes_come_back_as_they_came(more: Any, names: list[str]) -> None:
    items = [{"extra": more, "metadata": {"name": name}} for name in names]
    call = call_forms.read_nodes_call(written({"Other": more, "Pod": POD, "Nodes": {"more": more, "items": items}}))
    assert list(call.names) == names
    told = json.loads(call_forms.filtered(call, Filtered(names, {}, {})))
    assert told["Nodes"]["items"] == items
