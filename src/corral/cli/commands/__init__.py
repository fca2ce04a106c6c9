"""What each command is declared as, a module for each task. They load nothing of what a command does."""
