"""Corral on one node of a cluster: reports its devices to the server, and offers them to its kubelet.

Start reading at `agent_report.py`.
"""
