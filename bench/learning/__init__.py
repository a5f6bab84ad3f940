"""What is trained and tested, and on what: the model as one vector, a device's batches, the test set."""
