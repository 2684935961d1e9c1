"""Old packages and code, kept runnable, in which suspected slowdowns are confirmed."""
