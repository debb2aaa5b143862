"""`python -m spinney.service`: the command, where no script is installed."""

from spinney.service.cli import main

main()
