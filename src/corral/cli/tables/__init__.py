"""The printed form of jobs and GPUs: tables, bars and cells.

Start with `text_table`.
"""
