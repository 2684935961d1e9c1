"""The nouns: frozen values; the standard library, and scipy for a quantile."""
