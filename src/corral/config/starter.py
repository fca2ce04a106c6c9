"""The settings file for a new site: the settings that a shared machine needs, and others that are often wanted."""

from corral.config.differences import told
from corral.config.settings import Settings

_HOURS, _GPUS = 48, 4
"""The longest time limit in hours, and the GPUs of each user, for a site that has not set them yet."""

_BY_DEFAULT = (
    *("default_priority", "pass_unknown_limit_s", "pass_unknown_until_s", "stale_after_s", "max_temperature_c"),
    *("metrics_retention_days", "kill_grace_s"),
)


def starter_settings() -> str:
    """The text of a valid `config.yaml`. Its lines `#key: value` are settings, too, which are not in force."""
    settings = Settings()
    of = told(settings, frozenset(_BY_DEFAULT))
    least, most = settings.priorities_of_users
    return f"""\
# The settings of this site. docs/settings.md has all of them.
#   corral config check      checks this file
#   corral config reload     has the running server read it again
# Lines that begin with # and a space explain; those that begin with # alone are settings that are not in force.

policies:
  # The longest time limit in hours, and that of jobs without --time. With time limits it is known when each
  # waiting job starts, and shorter jobs use what is idle until then.
  max_job_duration_hours: {_HOURS}
  # So many GPUs each user may use at a time. A job that asks for more is refused. Half of your GPUs is a beginning.
  max_gpus_per_user: {_GPUS}

# Lower numbers run first. Users may choose among these: with the default as the first they step behind others,
# not ahead. Administrators may choose any.
default_priority: {of["default_priority"]}
priority_range: [{least}, {most}]

queues:
  - name: default
    # Who may start before a job that does not fit yet: easy (who does not delay the first of them), conservative
    # (who delays none), none, or any (whoever fits; large jobs may then wait for ever).
    backfill: easy

# Where nobody knows when such a job starts, because jobs without a time limit run, jobs with at most this time limit
# may start before it, until it has waited so long. 0s switches that off.
pass_unknown_limit: {of["pass_unknown_limit"]}
pass_unknown_until: {of["pass_unknown_until"]}

# Whoever has used least of their share goes first, in place of first come, first served.
#scheduling:
#  algorithm: fair-share

# GPUs that a job has not used for so long are taken back if others wait for them. Without this line they never are.
#reclaim_idle_after: 30m

# Groups of users, each with what it may use at a time (names of this machine's users).
#projects:
#  - name: vision
#    users: [alice, bob]
#    quota:
#      gpus: 4

# Where people are told of alerts (docs/channels.md). The URLs are secrets: chmod o-r this file.
#channels:
#  ops: mailto://localhost/?to=ops@example.org

# Corral has rules of its own (docs/alerts.md). These are added, or take the place of one of the same name.
#alerts:
#  - name: gpu-hot
#    when: "temperature_c > 85"
#    for: 1m
#    severity: critical

# These have their default values.
#stale_after: {of["stale_after"]}
#max_temperature: {of["max_temperature"]}
#metrics_retention_days: {of["metrics_retention_days"]}
#kill_grace: {of["kill_grace"]}
"""
