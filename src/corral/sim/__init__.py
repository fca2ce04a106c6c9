"""Simulators: the production core under a clock that is set by hand."""
