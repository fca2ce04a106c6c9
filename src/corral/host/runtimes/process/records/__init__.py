"""What server and supervisors write down of launches, and how it is read again.

Start with `launch_records`.
"""
