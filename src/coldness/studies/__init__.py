"""Studies: grids of runs, with what a paper reports beside what came out."""

from coldness.studies.study import Cell, Study, find_study, packaged_studies, read_study

__all__ = ["Cell", "Study", "find_study", "packaged_studies", "read_study"]
