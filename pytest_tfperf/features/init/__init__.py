"""The files that a project starts with.

For a repository without performance tests.
`tfperf init` writes a first test, settings and a CI file; a session is not touched.
"""
