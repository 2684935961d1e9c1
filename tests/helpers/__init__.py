"""What several tests share: played programs and machines, inner pytest sessions, projects to run them in."""
