"""Who is next: which jobs may start at all, and in which order they are looked at.

Start with `waiting`, the lines of jobs; `order` ranks within a line, `admission` checks limits and quotas.
"""
