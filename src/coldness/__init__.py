"""coldness: energy-based models whose energies can be trusted."""

__version__ = "0.1.0"
