"""The JSON bodies of requests and answers, except those in `corral.core.model`.

Requests are read into these classes (`corral.api.requests.reading`). Classes of answers only serve the API's
description.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Annotated, Any

from corral.core.control.changing.job_changes import MAX_REASON
from corral.core.control.nodes.cordoning import LONGEST_DEADLINE_S
from corral.core.control.nodes.slice_changes import MAX_SLICES
from corral.core.control.token_issuer import LONGEST_S
from corral.core.model.answers.devices import DeviceRow, MappedDevice
from corral.core.model.answers.jobs import JobRow
from corral.core.model.answers.site import NodeRow, QueueRow, ResourceNameRow
from corral.core.model.answers.tokens import TokenRow
from corral.core.model.devices.means import Means
from corral.core.model.field import Field
from corral.core.model.jobs import name_pattern
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.job import PRIORITY
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import PID, Submission
from corral.core.model.token import TokenScope

MAX_BATCH = 10_000
MAX_PAGE = 10_000
MAX_WAITED_FOR = 10_000
MAX_VALUES = 100
"""The most users or queues that a listing can be limited to."""


@dataclass(frozen=True, slots=True)
class JobBatch:
    """Submissions of which either all are accepted or none."""

    jobs: Annotated[tuple[Submission, ...], Field(shortest=1, longest=MAX_BATCH)]


@dataclass(frozen=True, slots=True)
class AdoptRequest:
    """A running process, to become a job that has the GPUs it uses."""

    pid: Annotated[int, PID]
    name: str = ""
    priority: Annotated[int | None, PRIORITY] = None


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Jobs or arrays to wait for, for at most 30 seconds per request."""

    ids: Annotated[tuple[str, ...], Field(longest=MAX_WAITED_FOR)]
    timeout_s: Annotated[float, Field(least=0)] = 20.0


@dataclass(frozen=True, slots=True)
class Cordon:
    """Why a device or a node is cordoned."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Why a job is cancelled, for a person; it becomes a part of the job's reason."""

    reason: Annotated[str, Field(longest=MAX_REASON)] = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """The reason to empty a node, and the time for which its jobs may go on (null: until they end by themselves)."""

    reason: str = ""
    deadline_s: Annotated[float | None, Field(least=0, most=LONGEST_DEADLINE_S)] = None


@dataclass(frozen=True, slots=True)
class Cut:
    """MIG slices to create; with `apply` false, only show what would be done."""

    profile: str
    count: Annotated[int, Field(least=1, most=MAX_SLICES)] = 1
    apply: bool = False


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to create: its user (null: the caller), its scope, and how long it is valid (null: for ever)."""

    user: str | None = None
    scope: TokenScope = TokenScope.SUBMIT
    expires_in_s: Annotated[float | None, Field(least=1, most=LONGEST_S)] = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class TokensQuery:
    """The tokens to list: valid ones, or all that are kept."""

    all: bool = False


@dataclass(frozen=True, slots=True)
class TokenList:
    """Tokens, oldest first."""

    tokens: tuple[TokenRow, ...]


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Ids of tokens."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Delete all MIG slices of a device; with `apply` false, only show what would be done."""

    apply: bool = False


@dataclass(frozen=True, slots=True)
class JobsQuery:
    """The jobs to list, newest first. `all` adds those that have ended; `limit` 0 lists all of them in one answer;
    `starts` adds the expected starts of waiting jobs; of those in a long queue that are not reached by the forecast,
    which is bounded, `expected_start_is` says "unforeseen".

    `user`, `phase`, `queue`, `project`, `namespace` and `name` may be several, separated by commas. The user "me" is
    the caller, and * in a name is any characters. `namespace` are those that are pods of others there. `means` are
    those that hold their first GPU so, or did at last: exclusive is a whole one, whatever the setting of the device.
    `since` are those submitted then or later (Unix seconds). `sort`, such as "started" or "-started" for the latest
    first, gives the first `limit` jobs in that order, and no next page.
    """

    all: bool = False
    user: tuple[str, ...] = ()
    phase: tuple[Phase, ...] = ()
    name: Annotated[str | None, Field(longest=name_pattern.MOST_CHARACTERS)] = None
    array: str | None = None
    limit: Annotated[int, Field(least=0, most=MAX_PAGE)] = 100
    before: int | None = None
    starts: bool = False
    queue: tuple[str, ...] = ()
    since: int | None = None
    sort: str | None = None
    project: tuple[str, ...] = ()
    means: Means | None = None
    namespace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventsQuery:
    """The events to send: `topics` of jobs, devices, alerts, tasks and metrics (all but metrics by default), and,
    except for metrics, all events `after` this event id; by default events from now on.
    """

    topics: tuple[str, ...] = ()
    after: int | None = None


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The part of a log: from byte `offset` on, or the last `tail` lines, or the output since the time `since` (Unix
    seconds; the output of some seconds before may be included), or the last lines of that. With `follow`, later
    output follows. `rank` is a member of a gang, or "all": whole lines of all members, each with the rank before it,
    and the last `tail` lines of each member. These are looked for in the last 256 MiB.
    """

    follow: bool = False
    offset: Annotated[int, Field(least=0)] = 0
    rank: str = "0"
    tail: Annotated[int | None, Field(least=0)] = None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class JobSignal:
    """The name of a signal, without SIG: INT, TERM, HUP, QUIT, USR1 or USR2."""

    signal: str


@dataclass(frozen=True, slots=True)
class InputQuery:
    """The body's place in a job's input: from byte `offset` on; with `end`, there is no more after it."""

    offset: int = 0
    end: bool = False


@dataclass(frozen=True, slots=True)
class RankQuery:
    """The member of a gang that is meant."""

    rank: int = 0


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """The most bytes that one directory may have."""

    most_bytes: int


@dataclass(frozen=True, slots=True)
class ContentsOf:
    """Digests of contents of files that a member of a gang has left, from its tree."""

    digests: tuple[str, ...]
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Accepted:
    """How many contents were accepted."""

    accepted: int


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A command to run inside a running job.

    Attributes:
        command: the program and its arguments; none for a shell.
        rank: the member of a gang to run it in.
        terminal: it runs at one of this size; left out: it has pipes.
        term: the kind of that terminal, such as "xterm-256color"; "" for as the job has it.
        stdin: whether it is sent input; otherwise its input is empty.
    """

    command: tuple[str, ...] = ()
    rank: int = 0
    terminal: TerminalSize | None = None
    term: str = ""
    stdin: bool = False


@dataclass(frozen=True, slots=True)
class FenceRequest:
    """The process that asks, by its own pid. The kernel has to name the same one."""

    pid: Annotated[int, PID]


@dataclass(frozen=True, slots=True)
class Fence:
    """Why the process can open GPUs of others, null if it cannot."""

    unfenced: str | None


@dataclass(frozen=True, slots=True)
class ExecId:
    """The id of a command that runs inside a job: ask for its output within ten seconds."""

    id: str


@dataclass(frozen=True, slots=True)
class JobId:
    """The id of an accepted job or array; `array_size` counts the elements of an array.

    `notes` name rounded amounts and the warnings of preflight; they are also at the top of the job's log.
    """

    id: str
    array_size: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobIds:
    """Ids, in the order of the request."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first; `next` is the `before` of the following page, null after the last."""

    jobs: tuple[JobRow, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class WaitAnswer:
    """Whether all these jobs have ended, and their rows."""

    done: bool
    jobs: tuple[JobRow, ...]


@dataclass(frozen=True, slots=True)
class DeviceList:
    """Devices in node and index order."""

    devices: tuple[DeviceRow, ...]


@dataclass(frozen=True, slots=True)
class NodeList:
    """Nodes by name."""

    nodes: tuple[NodeRow, ...]


@dataclass(frozen=True, slots=True)
class QueuesQuery:
    """The project of the job for which the amounts left are computed."""

    project: str = "default"


@dataclass(frozen=True, slots=True)
class QueueList:
    """The caller's limits, their projects', and all queues, each above those below it."""

    queues: tuple[QueueRow, ...]


@dataclass(frozen=True, slots=True)
class ResourceNameList:
    """Resource names of other systems, those of one group together."""

    resources: tuple[ResourceNameRow, ...]


@dataclass(frozen=True, slots=True)
class AllocMap:
    """The allocation map in node and index order, free devices included."""

    devices: tuple[MappedDevice, ...]


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """A GraphQL request over HTTP. `extensions` are for servers that have any."""

    query: str
    variables: Mapping[str, Any] | None = None
    operationName: str | None = None  # noqa: N815 - the name is GraphQL's
    extensions: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Liveness:
    """The server answers."""

    status: str = "ok"


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """An error: what is wrong, why, and what to do; `field` is the field to change in the request, if it is one.

    `descriptions` are the meanings of that field by language (en, zh), if its definition has them.
    """

    message: str
    kind: str
    field: str | None = None
    descriptions: Mapping[str, str] = dataclass_field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """Every answer with a status from 400 on."""

    error: ErrorDetail
