"""Requests to servers of others, with secrets that go to no other host and into no message."""
