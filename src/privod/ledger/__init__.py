"""The ledger: a durable chain of charges, what questions cost, and the engines that keep it."""
