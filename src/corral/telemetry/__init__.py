"""What the devices of this host are and do: sources, the sampler that asks them, and what their answers mean."""
