"""Output for CI systems: a summary in Markdown, annotations of source lines, and JUnit properties.

For nightly jobs and pull requests.
It writes when a session ends, for GitHub without being asked, and adds properties to each test's report.
"""
