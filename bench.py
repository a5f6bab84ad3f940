"""Run a federated benchmark: python bench.py --help"""

from bench.start import start

if __name__ == "__main__":
    start()
