"""Messages to people through channels, and to users about their jobs."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from corral.api.offers import Offers
    from corral.api.route_table import RouteTable
    from corral.config import Settings
    from corral.core.model.slice import SliceType
    from corral.features.building import Built, CoreDoors


class ChannelsFeature(Feature):
    """Channels of the site and of users, the messages that wait for them, and commands that run after jobs."""

    name = "channels"
    commands = (
        (
            "Server and site",
            "channels",
            "corral.features.channels.commands.ChannelsCommand",
            "Set the channel for messages about your jobs, and test it.",
        ),
    )

    def slices(self) -> Sequence[SliceType]:
        from corral.features.channels.slice import NoticesSlice

        return (NoticesSlice,)

    def routes(self) -> Sequence[RouteTable]:
        from corral.features.channels.routes import router

        return (router,)

    def described(self) -> Sequence[ModuleType]:
        from corral.features.channels import answers, bodies

        return (answers, bodies)

    def check(self, settings: Settings) -> None:
        from corral.features.channels.channel_process import check_channels

        check_channels(settings.channels, settings.places)

    def build(self, core: CoreDoors, offers: Offers) -> Built:
        from corral.features.channels.build import build

        return build(core)


FEATURE = ChannelsFeature()
