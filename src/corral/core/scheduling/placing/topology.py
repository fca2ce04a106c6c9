"""Scores devices of a node by how well they are connected. `closeness.py` says how."""

from dataclasses import dataclass

import numpy as np

from corral.core.scheduling.placing.closeness import set_score
from corral.core.scheduling.placing.scores import Floats, Granularity, PlacementOptions
from corral.core.scheduling.state.columns import Columns


@dataclass(frozen=True, slots=True)
class Topology:
    """The score of the closeness of the devices that would be taken; 1 if the node has no layout."""

    granularity: Granularity = Granularity.NODES
    version: int = 0

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        scores = np.ones(len(options.rows))
        if len(options.slots) > 1:
            for at, row in enumerate(options.rows.tolist()):
                known = columns.layouts[row]
                if known is not None:
                    scores[at] = set_score(known, options.slots[:, at].tolist())
        return scores
