"""The dashboard's pages: the built files of `web/`, sessions in cookies, and links that begin a session.

The pages use the same API as every other client. Start at `routes.py`.
"""
