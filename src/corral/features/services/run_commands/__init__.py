"""The code of the commands for model services.

Start with `service_commands`.
"""
