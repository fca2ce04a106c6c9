"""GraphQL for the allocation map, with Backend.ai's names. Loaded on the first query, because few servers get one."""

from collections.abc import Mapping
from typing import Any

import strawberry
from graphql import GraphQLError
from strawberry.exceptions import MissingQueryError
from strawberry.extensions import MaxTokensLimiter
from strawberry.schema.config import StrawberryConfig
from strawberry.schema.exceptions import CannotGetOperationTypeError
from strawberry.types import Info

from corral.core.access.caller import Caller
from corral.core.control.service import Service
from corral.core.model.errors import CorralError, Refused
from corral.core.sharing.alloc_map import AllocatedDevice, gpu_alloc_map

MOST_DEVICES = 1000
"""The most devices in a page."""

MOST_TOKENS = 1000
"""The most tokens in a query, so that no query can ask for the map a million times."""

ALIVE, LOST = "ALIVE", "LOST"

Context = dict[str, Any]
"""`service` and `caller` of the request."""


@strawberry.type
class DeviceJob:
    """A job's part of a device."""

    job_id: str
    user: str
    share_milli: int
    memory_mib: int | None


@strawberry.type
class AgentDevice:
    """A device and the jobs on it, in the order they came."""

    uuid: str
    allocated_milli: int
    jobs: list[DeviceJob]


@strawberry.type
class Agent:
    """A node; its id is its name, and it is LOST while it does not answer."""

    id: str

    @strawberry.field
    def status(self, info: Info[Context, None]) -> str:
        """ALIVE or LOST."""
        return LOST if self.id in _service(info).node_cordons.unheard() else ALIVE

    @strawberry.field
    def gpu_alloc_map(self, info: Info[Context, None]) -> str:
        """Amounts by device as JSON in a string; devices with nothing on them are absent."""
        return gpu_alloc_map(_service(info).holdings.alloc_map(self.id))

    @strawberry.field
    def devices(self, info: Info[Context, None], offset: int = 0, limit: int = 100) -> list[AgentDevice]:
        """A page of the devices in index order, free ones included."""
        _check_page(offset, limit)
        return [_device(one) for one in _service(info).holdings.devices(self.id, offset=offset, limit=limit)]


@strawberry.type
class RescanGPUAllocMaps:
    """Differences of the resource files from the ledger. They have been rewritten."""

    ok: bool
    msg: str
    disagreements: list[str]


@strawberry.type
class Query:
    """The queries."""

    @strawberry.field
    def agent(self, info: Info[Context, None], agent_id: str) -> Agent | None:
        """The node of this name, null when there is none."""
        return Agent(id=agent_id) if agent_id in _service(info).holdings.nodes() else None

    @strawberry.field
    def devices(self, info: Info[Context, None], offset: int = 0, limit: int = 100) -> list[AgentDevice]:
        """A page of the devices of all nodes, by node and index, free ones included."""
        _check_page(offset, limit)
        holdings = _service(info).holdings
        page: list[AgentDevice] = []
        for node, count in holdings.counts():
            if offset < count and len(page) < limit:
                found = holdings.devices(node, offset=offset, limit=limit - len(page))
                page += [_device(one) for one in found]
            offset = max(0, offset - count)
        return page

    @strawberry.field
    def agents(self, info: Info[Context, None]) -> list[Agent]:
        """Every node, by name."""
        return [Agent(id=name) for name in _service(info).holdings.nodes()]


@strawberry.type
class Mutation:
    """The mutations."""

    @strawberry.mutation
    def rescan_gpu_alloc_maps(self, info: Info[Context, None], agent_id: str) -> RescanGPUAllocMaps:
        """Compare the resource files of a node with the ledger and correct them. For administrators."""
        caller: Caller = info.context["caller"]
        found = _service(info).holdings.rescan(agent_id, caller)
        return RescanGPUAllocMaps(ok=True, msg="; ".join(found) or "files and ledger agree", disagreements=list(found))


class _Schema(strawberry.Schema):
    def process_errors(self, errors: list[GraphQLError], execution_context: Any = None) -> None:
        """Log nothing here: refusals concern only the client, and `execute` raises bugs."""


SCHEMA = _Schema(
    query=Query,
    mutation=Mutation,
    config=StrawberryConfig(auto_camel_case=False),
    extensions=[lambda: MaxTokensLimiter(max_token_count=MOST_TOKENS)],
)


def execute(
    query: str, variables: Mapping[str, Any] | None, operation: str | None, service: Service, caller: Caller
) -> dict[str, Any]:
    """The answer to a query: `data`, and `errors` with each refusal and its reason."""
    try:
        result = SCHEMA.execute_sync(
            query,
            variable_values=None if variables is None else dict(variables),
            operation_name=operation,
            context_value={"service": service, "caller": caller},
        )
    except MissingQueryError:
        return _refused("the query is empty; write one such as { agents { id gpu_alloc_map } }")
    except CannotGetOperationTypeError:
        named = "no operation" if operation is None else f"no operation {operation!r:.60}"
        return _refused(f"the query has {named}")
    answer: dict[str, Any] = {"data": result.data}
    if result.errors:
        # Mistakes in a query or its variables are GraphQL errors. Any other cause is a bug in Corral.
        for error in result.errors:
            if not isinstance(error.original_error, CorralError | GraphQLError | None):
                raise error.original_error
        answer["errors"] = [
            {
                "message": error.message,
                "path": error.path,
                "extensions": {"kind": _kind_of(error.original_error)},
            }
            for error in result.errors
        ]
    return answer


def _kind_of(cause: Exception | None) -> str:
    return type(cause).__name__ if isinstance(cause, CorralError) else Refused.__name__


def _refused(message: str) -> dict[str, Any]:
    return {"data": None, "errors": [{"message": message, "path": None, "extensions": {"kind": "Refused"}}]}


def _device(device: AllocatedDevice) -> AgentDevice:
    jobs = [
        DeviceJob(job_id=job.job_id, user=job.user, share_milli=job.share_milli, memory_mib=job.memory_mib)
        for job in device.jobs
    ]
    return AgentDevice(uuid=device.uuid, allocated_milli=device.allocated_milli, jobs=jobs)


def _check_page(offset: int, limit: int) -> None:
    if offset < 0 or not 1 <= limit <= MOST_DEVICES:
        raise Refused(f"offset must be 0 or more, and limit from 1 to {MOST_DEVICES}", field="limit")


def _service(info: Info[Context, None]) -> Service:
    service: Service = info.context["service"]
    return service
