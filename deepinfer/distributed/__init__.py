"""Several replicas and ranks: which replica gets a request, where experts lie, how their weights move."""
