"""Sharing one device: asking for a part, splitting it over devices, the means that hold jobs to it, and the map."""
