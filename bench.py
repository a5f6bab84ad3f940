"""Run a federated benchmark: python bench.py --help"""

import sys
from importlib.util import find_spec

if __name__ == "__main__":
    if not (find_spec("hydra") and find_spec("torch")):
        print(
            "fedbench is not installed here: `make bench` does that once; then `. .venv/bin/activate` "
            "and `python bench.py ...` run it.",
            file=sys.stderr,
        )
        sys.exit(2)
    from bench.main import main

    main()
