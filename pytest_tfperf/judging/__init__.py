"""The judgement, pure and from numbers alone: steady state, noise, drift, verdicts."""
