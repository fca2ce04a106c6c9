"""What each command is declared as, in a module for each task.

The modules load nothing of what a command does. Start reading at `corral.cli.declaring`, then `looking`.
"""
