"""The server's HTTP faces: REST on a Unix socket that knows its peers and on TCP with tokens, and GraphQL.

It checks who asks, reads what is asked into values of the model, and answers with its rows; `control` does the work.
Start with `app`.
"""
