"""Makers of GPUs. Everything specific to a maker is in its folder, behind one value of type `vendor.Vendor`.

No vendor depends on another. `registry` has the list, with the vendors that a site's packages add.
Start with `vendor`.
"""
