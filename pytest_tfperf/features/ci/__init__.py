"""Markdown, annotations and JUnit properties for CI systems."""
