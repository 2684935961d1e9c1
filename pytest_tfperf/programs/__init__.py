"""A user's own program: what its lines say, and the windows that come from them."""
