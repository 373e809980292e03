"""What answers a request: the JSON interface and the pages of the console."""
