"""`python -m twiceshy`: the command line, under the interpreter that the candidate needs."""

from twiceshy.cli import main

main()
