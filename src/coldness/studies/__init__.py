"""Studies: grids of runs that compare what a paper reports with what was measured."""

from coldness.studies.study import Cell, Study, find_study, packaged_studies, read_study

__all__ = ["Cell", "Study", "find_study", "packaged_studies", "read_study"]
