"""Fixtures for the routes of features: a real service that is served on real sockets."""

from tests.api.conftest import _patient_server, home, served, world

__all__ = ["_patient_server", "home", "served", "world"]
