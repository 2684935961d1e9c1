"""Traces of TensorFlow's profiler.

For whoever looks for the operation that grew.
It profiles each confirmed regression, and each new baseline to compare it with.
"""
