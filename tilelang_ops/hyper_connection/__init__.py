"""Hyper-connections: the residual streams, how sublayers read and write them, and their mixing weights."""
