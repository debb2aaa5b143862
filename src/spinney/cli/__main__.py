"""`python -m spinney.cli`: the command, where no script is installed."""

from spinney.cli.main import main

main()
