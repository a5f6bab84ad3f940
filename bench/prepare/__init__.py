"""All that is done before the first round: from the words of a command to a loop that can run."""
