"""What commands print: tables of jobs and GPUs, bars and cells.

Start with `text_table`.
"""
