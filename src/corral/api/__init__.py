"""The server's HTTP API: REST and GraphQL, on a Unix socket that knows its peers and on TCP with tokens.

It authenticates the caller and reads requests into values of the model; `control` does the work and makes the answer.
Start reading at `app` (all routes), then `jobs` and `routing`.
"""
