"""A farm of boards at TVM's tracker, simulated on one machine, under a load that grows."""
