"""Devices, jobs and times as text for people in a terminal.

Pure functions over the rows of answers, for the command line and for `corral top`. Text in them is still to be made
printable where it is shown. Start reading at `job_words`.
"""
