"""The extender of kube-scheduler: which nodes a pod may have, by the planner's own test, and the binding there.

Start at `extender.py` and `placed_pods.py`; `call_forms.py` has what is on the wire.
"""
