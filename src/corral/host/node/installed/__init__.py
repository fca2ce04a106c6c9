"""An installation of Corral's agent on a joined host: its directories, its service, and the server's key.

Each module here needs only the standard library, because a server runs them on a host that has nothing of Corral yet.
Start reading at `orders`; `own_installation` has the calls with which a server upgrades a running agent.
"""
