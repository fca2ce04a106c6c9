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
  # The longest time limit in hours, and that of jobs without --time. With time limits, start times of waiting
  # jobs are known, and shorter jobs use idle GPUs until then.
  max_job_duration_hours: {_HOURS}
  # The most GPUs of each user at a time. A job that asks for more is refused. Half of your GPUs is a first value.
  max_gpus_per_user: {_GPUS}

# Lower numbers run first. Users may choose from this range: if it begins with the default, they can step behind
# others, not ahead. Administrators may choose any.
default_priority: {of["default_priority"]}
priority_range: [{least}, {most}]

queues:
  - name: default
    # The jobs that may start before a job that does not fit yet: easy (jobs that do not delay the first waiting
    # job), conservative (jobs that delay none), none, or any (all that fit; large jobs may then wait for ever).
    backfill: easy

# If the start time of such a job is unknown, because jobs without a time limit run, jobs with at most this time
# limit may start before it, until it has waited for the second time. 0s switches that off.
pass_unknown_limit: {of["pass_unknown_limit"]}
pass_unknown_until: {of["pass_unknown_until"]}

# The user with the least use of their share goes first, in place of first come, first served.
#scheduling:
#  algorithm: fair-share

# GPUs that a job has not used for this time are taken back if others wait for them. Without this line they never are.
#reclaim_idle_after: 30m

# Groups of users, each with its quota (names of this machine's users).
#projects:
#  - name: vision
#    users: [alice, bob]
#    quota:
#      gpus: 4

# Channels for alerts (docs/channels.md). The URLs are secrets: chmod o-r this file.
#channels:
#  ops: mailto://localhost/?to=ops@example.org

# Corral has built-in rules (docs/alerts.md). These are added, or replace a rule of the same name.
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
