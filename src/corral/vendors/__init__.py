"""Makers of GPUs: all that is one maker's own is in its folder, behind one value, `vendor.Vendor`.

Start reading at `vendor`; `registry` has the list, and what a site's packages add to it. No vendor knows another.
"""
