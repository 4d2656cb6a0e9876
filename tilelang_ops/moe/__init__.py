"""Mixture of experts: the router, the layout of a step's rows by expert, and the experts' products."""
