"""What reaches a running job from outside: commands, input and signals. Work that others have started.

Start with `interaction`.
"""
