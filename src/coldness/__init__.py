"""coldness: energy-based models whose energies can be trusted."""

import os
from pathlib import Path

__version__ = "0.6.0"

# Compiled chains are kept between runs, where the system does not clear them away. PyTorch settles
# on a folder when its compiler is first imported, so this must come before that.
_cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(_cache / "coldness" / "compiled"))
