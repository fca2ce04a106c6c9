"""Builds the access to the hosts of a server."""

from corral.features.building import Built, CoreDoors
from corral.features.hosts.host_access import HostAccessByPeople


def build(core: CoreDoors) -> Built:
    """The use cases."""
    return Built(offers=(HostAccessByPeople(core.hosts, core.ledger.view, core.clock),))
