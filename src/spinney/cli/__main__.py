"""`python -m spinney.cli`: the command without an installed script."""

from spinney.cli.main import main

main()
