"""Commands for alerts and for notification channels."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, text


class AlertsAckCommand(DeclaredCommand, runs="site.alerts.ack", examples=("corral alerts ack 5f0c27ab",)):
    """Acknowledge an alert: others see that you take care of it. Its end is still reported."""

    alert_id: str = text(metavar="ID", help="Its id in `corral alerts`.", required=True)
    json: bool = flag("--json", help="Print JSON.")


class AlertsSilenceCommand(
    DeclaredCommand,
    runs="site.alerts.silence",
    examples=(
        "corral alerts silence temperature --for 2h",
        'corral alerts silence "node=gpu-07,severity=warning" --for 1d --reason "new fans"',
    ),
):
    """Send no messages about matching alerts for a time. They are still listed.

    KEY is rule, severity, subject, node, gpu, uuid, model, job, name, user, project, queue or disk; all parts must
    match. Only administrators may silence alerts that are not about their own jobs.
    """

    match: str = text(
        metavar="MATCH", help="A rule's name, an alert's id, or KEY=PATTERN,... (with * for anything).", required=True
    )
    duration: str = text("--for", metavar="TIME", help="For how long: 30m, 2h, 7d.", required=True)
    reason: str = text("--reason", metavar="TEXT", help="Shown with the silence.", default="")
    json: bool = flag("--json", help="Print JSON.")


class AlertsSilencesCommand(DeclaredCommand, runs="site.alerts.silences", examples=("corral alerts silences",)):
    """List the silences that are in force."""

    json: bool = flag("--json", help="Print JSON.")


class AlertsTestCommand(DeclaredCommand, runs="site.alerts.try_channel", examples=("corral alerts test ops",)):
    """Send a message to a channel of the site, wait for the result, and print it. Exits with 1 if it was not delivered.

    For administrators. `corral channels test` tries your own channel.
    """

    channel: str = text(metavar="CHANNEL", help="Its name in the site's settings.", required=True)
    json: bool = flag("--json", help="Print JSON.")


class AlertsUnsilenceCommand(
    DeclaredCommand, runs="site.alerts.unsilence", examples=("corral alerts unsilence 91ab03c4",)
):
    """End a silence. Messages about its alerts that are still active are sent then."""

    silence_id: str = text(metavar="ID", help="Its id in `corral alerts silences`.", required=True)
    json: bool = flag("--json", help="Print JSON.")


class AlertsCommand(
    DeclaredCommand,
    runs="site.alerts.alerts",
    commands={
        "ack": AlertsAckCommand,
        "silence": AlertsSilenceCommand,
        "silences": AlertsSilencesCommand,
        "test": AlertsTestCommand,
        "unsilence": AlertsUnsilenceCommand,
    },
    examples=(
        "corral alerts",
        "corral alerts silence node=gpu-07 --for 2h",
    ),
):
    """List active alerts; acknowledge and silence them."""

    history: bool = flag("--all", "-a", "--history", help="Also resolved alerts of the last 7 days (at most 500).")
    json: bool = flag("--json", help="Print JSON.")


class ChannelsListCommand(DeclaredCommand, runs="site.channels.list_channels", examples=("corral channels list",)):
    """List your channel, or as administrator also those of the site. URLs are secrets and not shown."""

    json: bool = flag("--json", help="Print JSON.")


class ChannelsSetCommand(
    DeclaredCommand,
    runs="site.channels.set_own",
    examples=(
        "corral channels set",
        "corral channels set < url-file",
    ),
):
    """Set the URL for messages to you. The command asks for it, or reads it from standard input.

    The URL is not an argument, because other users can see the arguments of commands.
    """

    json: bool = flag("--json", help="Print JSON.")


class ChannelsTestCommand(
    DeclaredCommand,
    runs="site.channels.try_channel",
    examples=(
        "corral channels test",
        "corral channels test ops",
    ),
):
    """Send a message to a channel, wait for the result, and print it. Exits with 1 if it was not delivered."""

    channel: str | None = text(metavar="[CHANNEL]", help="A channel of the site; without it, yours.")
    json: bool = flag("--json", help="Print JSON.")


class ChannelsRemoveCommand(DeclaredCommand, runs="site.channels.remove", examples=("corral channels remove",)):
    """Remove your channel."""


class ChannelsCommand(
    DeclaredCommand,
    commands={
        "list": ChannelsListCommand,
        "set": ChannelsSetCommand,
        "test": ChannelsTestCommand,
        "remove": ChannelsRemoveCommand,
    },
    examples=("corral channels set < url-file",),
):
    """Set the channel for messages about your jobs, and test it."""
