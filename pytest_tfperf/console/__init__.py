"""What the commands of `tfperf` share."""
