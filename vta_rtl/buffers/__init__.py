"""The on-chip buffers, and the ports through which modules use them."""
