"""Pods that others make with `schedulerName: corral`: each waits as a job, and is bound to the node that is chosen.

Start reading at `pod_ask` (what a pod asks for, or why it cannot be served), then at `binder` and `runtime`.
"""
