"""Tests of the native scheduler core."""
