"""How messages travel between parties and the aggregator: in memory, or over gRPC."""
