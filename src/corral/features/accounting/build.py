"""Builds the accounting of a server."""

from corral.api.offers import Offers
from corral.features.accounting.accounts import Accounts
from corral.features.accounting.gpu_reports import GpuReports
from corral.features.building import Built, CoreDoors
from corral.features.history.server_history import ServerHistory


def build(core: CoreDoors, offers: Offers) -> Built:
    """Usage from the ledger, and reports with the measurements of the history's meter."""
    meter, settings = offers.of(ServerHistory).meter, core.settings
    reports = GpuReports(core.ledger, core.clock, meter, prices=settings.prices, currency=settings.currency)
    return Built(offers=(reports, Accounts(core.ledger, core.clock)), job_use=reports.of_job)
