"""Parts of GPUs in a cluster: what pods ask for, which nodes give them, and what pods have.

The names of each software that gives parts are its vendor's (`KubernetesNames.shares`). Start with `pod_shares`.
"""
