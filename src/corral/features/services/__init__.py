"""Model services by OME and KServe, on the node with the most idle GPUs.

Start reading at `controllers`. `idle_nodes`, `parameters`, `manifests` and `service_status` are pure.
"""
