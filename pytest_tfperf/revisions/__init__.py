"""Other people's code: commits and their worktrees, virtual environments and locks, and the proof of which code ran."""
