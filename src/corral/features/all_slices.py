"""The slices of all features, with which a server opens its ledger."""

from corral.features.alerts.slice import AlertsSlice
from corral.features.channels.slice import NoticesSlice
from corral.features.tuner.slice import TunerSlice
from corral.model.slice import SliceType

SLICES: tuple[SliceType, ...] = (NoticesSlice, AlertsSlice, TunerSlice)
