"""Jobs as pods: each member of a job is one pod, on the node that the planner has chosen (decision 68).

- `runtime` makes, ends and forgets pods; `pod_patrol` checks them at intervals, and `logs` copies their logs.
- `own_pods` has the pods of a server: `state` is the value kept of a pod, and `pod_report` derives
  the state of its launch.
- `manifest` makes the pod of a launch from the site's rules in `site` and the user's template (`template`). `names`
  has names and labels.
"""
