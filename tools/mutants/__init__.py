"""Mutation testing: small changes of the production code that a test should notice."""
