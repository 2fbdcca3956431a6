"""A refresh that tests start as a process and kill: `refreshing.py CHECKOUT`.

It says `ready` once everything is imported, begins at a line on stdin, and says the corpus id at the end.
"""

import sys

from checkouts import AS_OF
from flows.surroundings import settle

if __name__ == "__main__":
    settle()
    from flows.refresh import refresh

    root = sys.argv[1]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(f"{refresh.fn('otlp', f'{root}/samples', as_of=AS_OF, root=root)['corpus_id']}\n")
