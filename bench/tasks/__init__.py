"""What can be learned: a task is a loss and a metric, and a data set names its own."""
