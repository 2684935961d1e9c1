"""Engines, a file for each launcher."""
