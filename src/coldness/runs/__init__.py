"""Run folders: the one reader and writer of what a run leaves on disk."""
