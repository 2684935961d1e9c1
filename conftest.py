"""The repository's own pytest glue: the project's tests run pytest inside pytest."""

pytest_plugins = ["pytester"]
