"""What is read from a program's output."""
