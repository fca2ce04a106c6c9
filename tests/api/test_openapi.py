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
    assert {ref.removeprefix("#/components/schemas/") for ref in found} <= set(description["components"]["schemas"])


def test_the_fields_of_a_submission_are_described(description: Any) -> None:
    schemas = description["components"]["schemas"]
    assert schemas["Submission"]["properties"]["command"] == {
        "default": [],
        "items": {"type": "string"},
        "title": "Command",
        "type": "array",
    }
    assert schemas["Request"]["properties"]["devices"]["default"] == 1


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
