"""Requests made up from the API's own description, and its answers held against that description."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
"""Not that what fits the description is accepted: it does not say which commands, users and devices there are."""

ANSWERED_WITHIN_S = 60.0
ENDLESS = "text/event-stream"

REFUSALS = ["401", "403", "404", "409", "413", "422"]

Statuses = Counter[tuple[str, str, str, int]]
"""How often who got which status from which method of which path."""


class DescribedApi:
    """One server's API as it describes itself, asked over TCP, each request by every holder of a token in turn.

    `tokens` are by who has them, None for nobody's. `known` has, by the name of a parameter in paths, what is there,
    such as the ids of jobs: most requests name one of these, because what is not there is answered the same each time.
    """

    def __init__(
        self,
        description: Mapping[str, Any],
        url: str,
        tokens: Mapping[str, str | None],
        known: Mapping[str, Sequence[str]],
    ) -> None:
        self._schema = schemathesis.openapi.from_dict(dict(description))
        self._schema.config.update(base_url=url)
        self._schema.config.checks.negative_data_rejection.expected_statuses = REFUSALS
        self._headers = {
            who: {} if token is None else {"Authorization": f"Bearer {token}"} for who, token in tokens.items()
        }
        self._known = known
        self._session = requests.Session()
        self.statuses: Statuses = Counter()

    def close(self) -> None:
        self._session.close()

    def ask(self, examples: int) -> None:
        """So many requests to each route that fit the description, and so many that do not.

        Raises for an answer that is a fault of the server's own, or none that is described.
        """
        for operation in self._operations():
            self._ask(operation, GenerationMode.POSITIVE, examples)
            if _can_be_asked_wrongly(operation.definition.raw):
                self._ask(operation, GenerationMode.NEGATIVE, examples)

    def _operations(self) -> Iterator[Any]:
        for found in self._schema.get_all_operations():
            operation: Any = found.ok()  # type: ignore[union-attr]
            answers = operation.definition.raw["responses"].values()
            if not any(ENDLESS in answer.get("content", {}) for answer in answers):
                yield operation

    def _ask(self, operation: Any, mode: GenerationMode, examples: int) -> None:
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), choice=st.integers(0, 11))
        def exchange(case: Any, choice: int) -> None:
            for name, there in self._known.items():
                if name in (case.path_parameters or {}) and choice > 2:
                    case.path_parameters[name] = there[choice % len(there)]
            for who, headers in self._headers.items():
                answer = case.call(session=self._session, headers=headers, timeout=ANSWERED_WITHIN_S)
                self.statuses[who, operation.method.upper(), operation.path, answer.status_code] += 1
                case.validate_response(answer, checks=CHECKS)

        exchange()


def _can_be_asked_wrongly(described: Mapping[str, Any]) -> bool:
    """Whether there are requests that the description of the route rules out: any text may be a name in its path, and
    some bodies may be any bytes.
    """
    takes_json = "application/json" in described.get("requestBody", {}).get("content", {})
    return takes_json or any(one["in"] == "query" for one in described.get("parameters", ()))
