"""The judgement, pure and from numbers alone: has a run settled, what is noise, what drifted, what fails."""
