"""Messages to people through channels of the site and of users, and to users about the starts and ends of their jobs.

Start with `delivery`, which has all channels, and `slice`, which decides when a message about a job becomes due.
"""
