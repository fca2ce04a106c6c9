"""Will this job run there? Driver against runtime, precision against hardware, memory against what the model needs."""
