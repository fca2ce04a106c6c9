"""The objectives of a search, and their metrics. It does not import numpy, because reports use it too."""

from enum import StrEnum


class Objective(StrEnum):
    """A quantity that the search optimizes."""

    LATENCY = "minimize_latency"
    THROUGHPUT = "maximize_throughput"
    TTFT = "minimize_ttft"
    TPOT = "minimize_tpot"
    ENERGY = "minimize_energy"

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics from which it is read; the first measured one counts."""
        return {
            Objective.LATENCY: ("mean_e2e_latency", "p50_e2e_latency"),
            Objective.THROUGHPUT: ("mean_total_throughput_per_gpu", "mean_total_throughput", "mean_output_throughput"),
            Objective.TTFT: ("mean_ttft",),
            Objective.TPOT: ("mean_tpot",),
            Objective.ENERGY: ("energy_per_output_token_j", "energy_per_total_token_j"),
        }[self]

    @property
    def sign(self) -> int:
        """The factor for its metric that makes lower values better."""
        return -1 if self is Objective.THROUGHPUT else 1
