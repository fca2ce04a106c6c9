"""The autotuner: tasks, and the experiments by which they find how to serve a model best."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.config import Settings
    from corral.core.control.events.rows_of_facts import RowsOfFact
    from corral.core.model.slice import SliceType
    from corral.features.building import Built, CoreDoors

_GROUP = "Serve models well"


class TunerFeature(Feature):
    """Tasks of the autotuner, and the processes that run them."""

    name = "tuner"
    commands = (
        (_GROUP, "tune", "corral.features.tuner.commands.TuneCommand", "Find the best way to serve a model."),
        (
            _GROUP,
            "tasks",
            "corral.features.tuner.commands.TasksCommand",
            "List the tasks of the autotuner; start, cancel and delete them.",
        ),
        (
            _GROUP,
            "experiments",
            "corral.features.tuner.commands.ExperimentsCommand",
            "List the experiments of a task of the autotuner.",
        ),
        (_GROUP, "bench", "corral.features.tuner.commands.BenchCommand", "Measure an OpenAI-compatible server."),
    )

    def slices(self) -> Sequence[SliceType]:
        from corral.features.tuner.slice import TunerSlice

        return (TunerSlice,)

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.tuner import insight_routes, routes
        from corral.features.tuner.other_names import routes as other_routes
        from corral.features.tuner.other_names import site_routes, stream_routes

        return (routes.router, other_routes.router, insight_routes.router, stream_routes.router, site_routes.router)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.tuner import answers, bodies, finding_answers
        from corral.features.tuner.other_names import answers as other_answers
        from corral.features.tuner.other_names import bodies as other_bodies

        return (answers, finding_answers, bodies, other_answers, other_bodies)

    def check(self, settings: Settings) -> None:
        if settings.tuner.images:
            from corral.features.tuner.engines.inference_engine import check_images

            check_images(settings.tuner, settings.places.get("tuner", "settings"))

    def topics(self) -> Mapping[str, RowsOfFact]:
        from corral.features.tuner.event_rows import of_tasks

        return {"tasks": of_tasks}

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.tuner.build import build

        return build(core)


FEATURE = TunerFeature()
