"""`arq corral.tuner.arq.WorkerSettings`: a worker for sites whose programs enqueue tasks in Redis."""

from corral.features.tuner.other_names.arq import WorkerSettings, run_autotuning_task

__all__ = ["WorkerSettings", "run_autotuning_task"]
