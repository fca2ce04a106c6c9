"""Which launches there are on a node, whether or not a list of them is new."""

from dataclasses import dataclass, field
from typing import cast

from corral.engines.kubernetes.engine.cluster_launches import ClusterLaunches
from corral.engines.kubernetes.engine.runtimes import ClusterRuntime, LaunchedHere
from tests.engines.kubernetes.pods.launches import launch_of


@dataclass
class OnRecord:
    """What a runtime has on record, and how often it was asked."""

    found: list[LaunchedHere] = field(default_factory=list)
    asked: int = 0

    def on_record(self) -> tuple[LaunchedHere, ...]:
        self.asked += 1
        return tuple(self.found)


@dataclass(frozen=True)
class Found:
    launch_id: str
    node: str


def launches_of(runtime: OnRecord) -> ClusterLaunches:
    return ClusterLaunches({"container": cast(ClusterRuntime, runtime)})


def ids(launches: ClusterLaunches, node: str) -> list[str]:
    return [launch_id for _, launch_id in launches.on(node)]


def test_a_launch_that_is_newer_than_the_list_is_on_its_node() -> None:
    launches = launches_of(OnRecord())
    assert ids(launches, "a") == []
    launch = launch_of(node="a")
    launches.add(launch)
    assert (ids(launches, "a"), ids(launches, "b")) == ([launch.id], [])


def test_a_launch_that_is_on_record_too_is_there_once() -> None:
    launch = launch_of(node="a")
    launches = launches_of(OnRecord([Found(launch.id, "a"), Found("7.1", "a"), Found("8.1", "b")]))
    launches.add(launch)
    assert sorted(ids(launches, "a")) == sorted([launch.id, "7.1"])


def test_a_launch_that_was_forgotten_is_on_no_node() -> None:
    launches = launches_of(OnRecord())
    launch = launch_of(node="a")
    launches.add(launch)
    launches.drop("a", launch.id)
    assert (ids(launches, "a"), launches.runtime_of(launch.id)) == ([], None)


def test_nodes_that_come_together_share_a_list() -> None:
    runtime = OnRecord()
    launches = launches_of(runtime)
    for node in ("a", "b", "c"):
        launches.on(node)
    assert runtime.asked == 1
