"""The verbs of python -m bench."""
