"""What `corral top` shows: devices and jobs on a terminal, live, with the log of one and a way to cancel some.

`board` is what is known, `board_news` what changes it, `device_lines` and `job_lines` how it is written: none of them
knows a terminal. `feed` hears the server on threads of its own, and `app` draws with Textual, which only it and its
widgets need. Start reading at `board`, then `app`.
"""
