"""`corral top`: devices and jobs live on a terminal, with the log of a job and a way to cancel jobs.

`board` holds the state, `board_news` the changes to it, `device_lines` and `job_lines` turn it into lines: none of them
knows a terminal. `feed` talks to the server on threads of its own. `app` draws with Textual, which only it and its
widgets need. Start reading at `board`, then `app`.
"""
