"""Jobs as pods: each member of a job is one pod, on the node that the planner has chosen (decision 68).

- `runtime` makes, ends and forgets pods; `pod_patrol` looks after them by the clock, and `logs` copies what they write.
- `own_pods` has the pods of a server: `state` is what is kept of one, and `report` what that says of its launch.
- `manifest` makes the pod of a launch, of what `site` allows and `template` reads; `names` says how it is called.
"""
