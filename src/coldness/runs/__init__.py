"""Run folders: all reading and writing of the files of a run."""
