"""Installs agents on hosts that are joined by SSH, without the internet, and upgrades and removes them.

Start reading at `installer.py`.
"""
