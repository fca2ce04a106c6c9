"""Commands that work on this machine instead of asking a server, or before there is one.

They alone of the command line may import other rooms than the client. Start with `doctor` and `server`.
"""
