"""Bookkeeping of decode steps: rows of a plan, and where they find and leave things."""
