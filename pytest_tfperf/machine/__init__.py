"""What a machine is and does, as values: its GPUs and links, its key, its canaries, what was seen while it worked."""
