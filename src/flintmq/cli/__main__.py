"""`python -m flintmq.cli` runs the command line where the `flintmq` script is not installed, as in a checkout."""

from flintmq.cli.main import main

main()
