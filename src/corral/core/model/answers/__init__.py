"""What a server answers: the one shape of each answer, made by `control`, described by `api`, read by `client`.

Times are Unix seconds. A field that came later has a default, for a client that asks an older server. A module for each
kind of answer, for a command imports only what it reads: start with `jobs`.
"""
