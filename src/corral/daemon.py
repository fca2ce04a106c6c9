"""`python -m corral.daemon`: one server as a process. The name that service files and other programs know."""

from corral.app.daemon import leave, main

__all__ = ["main"]

if __name__ == "__main__":
    leave(main())
