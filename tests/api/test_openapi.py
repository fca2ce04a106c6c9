from typing import Any

import pytest

from tests.api.world import Served


@pytest.fixture
def description(served: Served) -> Any:
    return served.call("GET", "/openapi.json").data


def test_every_route_is_described_with_what_it_takes_and_gives(description: Any) -> None:
    submit = description["paths"]["/api/v1/jobs"]["post"]
    assert submit["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Submission")
    assert submit["responses"]["201"]["content"]["application/json"]["schema"]["$ref"].endswith("/JobId")
    listing = description["paths"]["/api/v1/jobs"]["get"]
    assert [parameter["name"] for parameter in listing["parameters"]][:3] == ["all", "user", "phase"]


def test_every_reference_leads_to_a_schema(description: Any) -> None:
    def references(node: Any) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if "$ref" in node else []
            return own + [ref for value in node.values() for ref in references(value)]
        return [ref for value in node for ref in references(value)] if isinstance(node, list) else []

    found = references(description)
    assert found
    missing = {ref.removeprefix("#/components/schemas/") for ref in found} - set(description["components"]["schemas"])
    assert missing == set(), "a feature names the modules of these classes in `described`"


def test_the_fields_of_a_submission_are_described(description: Any) -> None:
    schemas = description["components"]["schemas"]
    assert schemas["Submission"]["properties"]["command"] == {
        "default": [],
        "items": {"type": "string"},
        "title": "Command",
        "type": "array",
    }
    assert schemas["Request"]["properties"]["devices"]["default"] == 1


def test_what_a_request_to_a_feature_may_leave_out_is_described_so(description: Any) -> None:
    silence = description["components"]["schemas"]["NewSilence"]
    assert silence["required"] == ["match", "duration_s"]
    assert silence["properties"]["reason"]["default"] == ""


def test_an_answer_is_described_as_telling_every_field(description: Any) -> None:
    schemas = description["components"]["schemas"]
    row = schemas["JobRow"]
    assert row["required"] == list(row["properties"])
    assert row["properties"]["phase"] == {"$ref": "#/components/schemas/Phase"}
    assert row["properties"]["started_at"] == {"anyOf": [{"type": "number"}, {"type": "null"}], "title": "Started At"}
    assert {"id", "spec", "waits_for"} <= set(schemas["JobDetail"]["required"])


def test_every_operation_can_say_no(description: Any) -> None:
    operations = [operation for methods in description["paths"].values() for operation in methods.values()]
    assert len(operations) >= 17
    assert all("default" in operation["responses"] for operation in operations)


TAKEN = (
    "Submission", "Request", "ArraySpec", "JobBatch", "AdoptRequest", "WaitFor", "Cordon", "Cut", "GiveUp", "NewToken",
    "JobUpdate",
)  # fmt: skip


def test_what_is_read_strictly_is_described_as_closed_and_what_is_told_as_open(description: Any) -> None:
    schemas = description["components"]["schemas"]
    assert all(schemas[name]["additionalProperties"] is False for name in TAKEN)
    assert not [name for name in ("JobRow", "DeviceRow", "ServerInfo") if "additionalProperties" in schemas[name]]


def kinds(field: Any) -> list[Any]:
    return [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]


def test_every_whole_number_that_is_asked_has_its_bounds(description: Any) -> None:
    schemas = description["components"]["schemas"]
    numbers = [
        (name, field, kind)
        for name in TAKEN
        for field, told in schemas[name]["properties"].items()
        for kind in kinds(told)
        if kind.get("type") == "integer"
    ]
    assert len(numbers) > 15
    assert not [(name, field) for name, field, kind in numbers if not {"minimum", "maximum"} <= set(kind)]


def test_what_the_description_rules_out_is_refused(served: Served, description: Any) -> None:
    schemas = description["components"]["schemas"]
    tried = 0
    for above, name in (((), "Submission"), (("request",), "Request"), (("array",), "ArraySpec")):
        for field, told in schemas[name]["properties"].items():
            for kind in kinds(told):
                outside = [kind[end] + step for end, step in (("minimum", -1), ("maximum", 1)) if end in kind]
                outside += [kind[end] for end in ("exclusiveMinimum", "exclusiveMaximum") if end in kind]
                outside += ["x" * (kind["maxLength"] + 1)] if "maxLength" in kind else []
                for value in outside:
                    group = {"indices": [0], field: value} if name == "ArraySpec" else {field: value}
                    body = {"command": ["true"], **({above[0]: group} if above else group)}
                    answer = served.call("POST", "/jobs", body)
                    assert answer.status == 422, (field, value)
                    tried += 1
    assert tried > 30


def test_the_query_of_a_list_of_jobs_has_its_bounds(description: Any) -> None:
    parameters = description["paths"]["/api/v1/jobs"]["get"]["parameters"]
    (limit,) = [one["schema"] for one in parameters if one["name"] == "limit"]
    assert limit == {"type": "integer", "minimum": 0, "maximum": 10_000}
