"""The nouns: frozen dataclasses. They import the standard library only, and scipy for one quantile."""
