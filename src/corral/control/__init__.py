"""Use cases, the deciding loop and the acting hand. Knows ports and pure rooms, never a concrete edge."""
