"""Reports of the agents on a cluster's nodes: who may send one, and the latest of each node.

Start reading at `report_box.py`.
"""
