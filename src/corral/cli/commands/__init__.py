"""The declarations of all commands, one module for each task.

These modules do not load the commands' code. Start reading at `corral.cli.declaring`, then `looking`.
"""
