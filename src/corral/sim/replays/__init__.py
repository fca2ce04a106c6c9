"""The past of a server, read from its journal, as a simulation takes it.

Start with `journal`.
"""
