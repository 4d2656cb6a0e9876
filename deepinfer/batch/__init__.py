"""Durable jobs: a file of prompts in, a file of results out, on machines that get killed."""
