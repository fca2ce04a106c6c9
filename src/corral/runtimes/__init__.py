"""Where work runs: each runtime launches, stops, reports and lists launches, and knows nothing of queues."""
