"""Commands for alerts and silences."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, text


class AlertsAckCommand(
    DeclaredCommand, runs="corral.features.alerts.run_commands.ack", examples=("corral alerts ack 5f0c27ab",)
):
    """Acknowledge an alert: others see that you take care of it. Its end is still reported."""

    alert_id: str = text(metavar="ID", help="Its id in `corral alerts`.", required=True)
    json: bool = flag("--json", help="Print JSON.")


class AlertsSilenceCommand(
    DeclaredCommand,
    runs="corral.features.alerts.run_commands.silence",
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


class AlertsSilencesCommand(
    DeclaredCommand, runs="corral.features.alerts.run_commands.silences", examples=("corral alerts silences",)
):
    """List the silences that are in force."""

    json: bool = flag("--json", help="Print JSON.")


class AlertsTestCommand(
    DeclaredCommand, runs="corral.features.alerts.run_commands.try_channel", examples=("corral alerts test ops",)
):
    """Send a message to a channel of the site, wait for the result, and print it. Exits with 1 if it was not delivered.

    For administrators. `corral channels test` tries your own channel.
    """

    channel: str = text(metavar="CHANNEL", help="Its name in the site's settings.", required=True)
    json: bool = flag("--json", help="Print JSON.")


class AlertsUnsilenceCommand(
    DeclaredCommand,
    runs="corral.features.alerts.run_commands.unsilence",
    examples=("corral alerts unsilence 91ab03c4",),
):
    """End a silence. Messages about its alerts that are still active are sent then."""

    silence_id: str = text(metavar="ID", help="Its id in `corral alerts silences`.", required=True)
    json: bool = flag("--json", help="Print JSON.")


class AlertsCommand(
    DeclaredCommand,
    runs="corral.features.alerts.run_commands.alerts",
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
