"""A Kubernetes cluster as Corral reads and changes it: the API server's client, and caches that follow its objects.

Start reading at `client` (calls), `watch_state` (what news of objects means) and `cache` (who follows them);
`node_facts` and `pod_facts` are what is kept of nodes and pods.
"""
