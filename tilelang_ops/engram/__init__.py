"""Engram: hashed n-gram memory."""
