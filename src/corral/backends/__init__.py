"""Where work runs: each backend launches, stops, reports and lists launches, and knows nothing of queues."""
