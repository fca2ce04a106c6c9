"""Why did it fail? The end of a failed job's log, and what is known of how it ended, in one line with the fix. Pure."""
