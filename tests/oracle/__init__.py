"""Independent float64 derivations of the methods, in numpy, compared with the real loop through bench.testing."""
