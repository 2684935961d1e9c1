"""Measurements in the form of other tools."""
