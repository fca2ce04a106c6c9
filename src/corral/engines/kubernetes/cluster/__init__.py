"""The access to a Kubernetes cluster: the API server's client, and caches that follow its objects.

Start reading at `client` (calls), `watch_state` (the meaning of listings and events) and `cache` (the values of one
reader). `node_facts` and `pod_facts` are the values kept of nodes and pods.
"""
