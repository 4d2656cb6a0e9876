"""Measurements over the public API: what drafts gain, and how far their confidence can be believed."""
