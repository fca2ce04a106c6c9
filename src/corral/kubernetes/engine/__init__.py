"""The engine of a Kubernetes cluster: its nodes, and what happens on them (decision 67).

- `engine` puts it together: caches of nodes and of pods, the runtimes of jobs, an agent for each node.
- `node_book` knows each node, the pods of others on it, and what jobs have of it; `cluster_feed` tells the news of all.
- `node_agent` does on one node what a server asks for.
"""
