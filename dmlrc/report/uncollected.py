"""Importing this stops the search for garbage: before all that is imported and read to stay, of which none is.

For the process from which the kernels of a book are forked; `dmlrc.report.committed`, which is last, lets it go on.
"""

import gc

gc.disable()
