"""Commands to learn more."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, choice, flag, text


class DemoCommand(
    DeclaredCommand,
    runs="jobs.demo.demo",
    examples=(
        "corral demo",
        "corral demo --keep",
    ),
):
    """Watch Corral at work for about ten seconds.

    Starts a temporary server and runs a few real jobs, on the GPUs of this machine if all are free, else on eight mock
    GPUs.
    """

    keep: bool = flag("--keep", help="Keep the server running, and show how to use it.")


class CompletionCommand(
    DeclaredCommand,
    runs="help.completion.completion",
    examples=(
        "echo 'eval \"$(corral completion bash)\"' >> ~/.bashrc",
        "echo 'eval \"$(corral completion zsh)\"' >> ~/.zshrc     # below compinit",
        "corral completion fish > ~/.config/fish/completions/corral.fish",
    ),
):
    """Print a script with which your shell completes commands.

    It completes commands, flags, and values such as job ids, which it asks the server for.
    """

    shell: str = choice(help="Your shell.", choices=("bash", "zsh", "fish"), required=True)


class HelpCommand(
    DeclaredCommand,
    runs="help.help_command.help",
    examples=(
        "corral help token create",
        "corral help docs",
        "corral help docs settings",
    ),
):
    """Show the help of a command, or a document. Without one, list all commands.

    "corral help docs" lists the documents that are installed, "corral help docs settings" shows one.
    """

    words: list[str] | None = text(metavar="[COMMAND]...", help="The command.", many=True)


class VersionCommand(DeclaredCommand, runs="direct.print_version.print_version", examples=("corral version",)):
    """Print the version of Corral."""
