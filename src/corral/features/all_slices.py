"""Lists the slices of all features, with which a server opens its ledger."""

from corral.core.model.slice import SliceType
from corral.features.alerts.slice import AlertsSlice
from corral.features.channels.slice import NoticesSlice
from corral.features.tuner.slice import TunerSlice

SLICES: tuple[SliceType, ...] = (NoticesSlice, AlertsSlice, TunerSlice)
