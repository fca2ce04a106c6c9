"""Labels that tell the versions of a node's driver, apart from nodes, which take longer to load."""

VERSION_LABELS = ("driver-version", "cuda-major-version", "cuda-minor-version")
"""Labels that every node carries as far as its versions are known; a site sets none of these."""
