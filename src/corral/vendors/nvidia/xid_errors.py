"""The Xid errors that say nothing of the GPU's health: a program caused them. Every other Xid makes a GPU suspect."""

APPLICATION_ERRORS = frozenset({13, 31, 43, 45, 68, 109})
"""NVIDIA's device plugin for Kubernetes ignores these errors, too."""
