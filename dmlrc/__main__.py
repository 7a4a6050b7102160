"""`python -m dmlrc` is the command `dmlrc`."""

from dmlrc.cli import main

main()
