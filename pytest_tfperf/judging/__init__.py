"""The judgement, pure and from numbers alone: has a run settled, what is noise, what is the night's, what fails."""
