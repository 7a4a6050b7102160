"""Importing this stops the search for garbage, until `dmlrc.report.committed`, also preloaded, has read what stays."""

import gc
import sys

gc.disable()
# jsonschema reads a grammar of web addresses for 0.6 CPU seconds if it can import it: no notebook's schema asks for it
sys.modules.setdefault("rfc3987_syntax", None)
