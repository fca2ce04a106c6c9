"""Everything that is done on a host. Start reading at `local.py`: it puts the parts of an agent together.

Control knows this room through `corral.core.ports.node.NodeAgent` alone.
"""
