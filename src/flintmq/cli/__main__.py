"""`python -m flintmq.cli`: the command where no script is installed, such as interpreted from a checkout."""

from flintmq.cli.main import main

main()
