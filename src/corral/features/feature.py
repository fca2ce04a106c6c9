"""The parts that a feature brings to a server and its clients.

A command line loads this module and the `feature` module of each feature, to find their commands. So these modules load
nothing else before it is asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.config import Settings
    from corral.core.control.events.rows_of_facts import RowsOfFact
    from corral.core.model.fact import Observation
    from corral.core.model.slice import SliceType
    from corral.features.building import Built, CoreDoors


class Feature:
    """One capability beside deciding. A feature overrides what it has.

    Attributes:
        name: its folder's name.
        needs: features that are built before it. It may use what they offer.
        commands: its commands: the title under which help lists each, its name, where it is declared, and a summary.
        cluster_checks: its checks of a Kubernetes cluster for `corral doctor`: the name of each, and where it is.
    """

    name: str
    needs: tuple[str, ...] = ()
    commands: tuple[tuple[str, str, str, str], ...] = ()
    cluster_checks: tuple[tuple[str, str], ...] = ()

    def slices(self) -> Sequence[SliceType]:
        """Its slices of the ledger."""
        return ()

    def routes(self) -> Sequence[RouteTable]:
        """Its routes below /api/v1."""
        return ()

    def described(self) -> Sequence[ModuleType]:
        """The modules whose classes the description of the API has: the bodies of its requests and answers."""
        return ()

    def topics(self) -> Mapping[str, RowsOfFact]:
        """Its topics of events: for each the function that makes rows of a fact."""
        return {}

    def check(self, settings: Settings) -> None:
        """Raise Refused for settings that only this feature can judge."""

    def arranged(self, settings: Settings) -> Sequence[Observation]:
        """The observations for its slice that follow from a site's settings. Raises Refused."""
        return ()

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        """Make its parts for a server. `offers` has what the features that it needs offer."""
        from corral.features.building import Built

        return Built()
