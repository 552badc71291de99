"""Instructions and uops as the hardware sees them."""
