"""`python -m corral.daemon`: one server as a process. Service files and other programs use this name."""

from corral.app.daemon import leave, main

__all__ = ["main"]

if __name__ == "__main__":
    leave(main())
