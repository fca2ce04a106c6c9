"""The node agent of a host, which does all work on it. Start reading at `local.py`: it puts the parts of an agent
together.

Control knows this room through `corral.core.ports.node.NodeAgent` alone.
"""
