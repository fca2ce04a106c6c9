"""The dashboard's pages: files of `web/` as it was built, sessions in cookies, and links that begin one.

Start at `routes.py`. What the pages show and do goes through the same API as everything else.
"""
