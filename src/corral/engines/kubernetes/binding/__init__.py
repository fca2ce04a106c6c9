"""Pods that others create with `schedulerName: corral`. Each waits as a job and is bound to the node that Corral
chooses.

Start reading at `pod_ask` (the requests of a pod, or the reason why Corral cannot serve it), then at `binder` and
`binding_runtime`.
"""
