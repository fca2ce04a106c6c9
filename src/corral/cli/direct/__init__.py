"""Commands that scripts run often. They load neither the classes of the model nor much else (decision 99)."""
