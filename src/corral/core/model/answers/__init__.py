"""The answers of a server, one class for each: `control` makes them, `api` describes them, `client` reads them.

Times are Unix seconds. A field that was added later has a default, for clients that ask an older server. Each kind of
answer has a module of its own, because a command imports only what it reads.
Start with `jobs`.
"""
