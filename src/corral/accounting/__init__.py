"""GPU-hours used by users, projects and queues, split by how their limits were enforced. Pure.

Start with `gpu_hours`.
"""
