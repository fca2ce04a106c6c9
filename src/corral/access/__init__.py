"""Who may do what to what. Pure: who asks is told by `corral.api.auth`."""
