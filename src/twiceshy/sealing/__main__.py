"""`python -m twiceshy.sealing`: the inner half of `probe`."""

import sys

from twiceshy.sealing.probing import answer_probe

sys.exit(answer_probe())
