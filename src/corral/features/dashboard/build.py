"""Builds the dashboard of a server."""

from corral.features.building import Built, CoreDoors
from corral.features.dashboard.dashboard import Dashboard
from corral.features.dashboard.listener import LoopbackListener


def build(core: CoreDoors) -> Built:
    """The pages, their sessions, and the port of this machine on which browsers find them."""
    listener = LoopbackListener(core.home.page_port_file, core.loopback_url, core.serve)
    dashboard = Dashboard(listener, core.clock, proxied_host=core.settings.dashboard_host)
    return Built(offers=(dashboard,), sockets=listener.reopened(), sessions=dashboard)
