"""Bridges to other libraries; nothing here is imported unless asked for."""
