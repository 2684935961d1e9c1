"""Lasting changes over sessions."""
