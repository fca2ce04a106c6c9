"""The engine of a Kubernetes cluster: its nodes, and the work done on them (decision 67).

- `engine` assembles the parts: caches of nodes and of pods, the runtimes of jobs, an agent for each node.
- `node_book` keeps the state of each node: its facts, the pods of others on it, and the slots of jobs. `cluster_feed`
  reports the changes of all nodes.
- `node_agent` carries out a server's requests on one node.
"""
