"""How devices, jobs and times are written for people in a terminal, whatever shows them.

Pure functions over the rows of answers, for the command line and for `corral top`. Text in them is still to be made
printable where it is shown. Start reading at `job_words`.
"""
