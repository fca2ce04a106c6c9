"""The server's HTTP API: REST and GraphQL. Callers use a Unix socket, which names their process, or TCP with a token.

The API authenticates the caller and reads requests into values of the model. `control` does the work and makes the
answer. Start reading at `app` (all routes), then `jobs` and `routing`.
"""
