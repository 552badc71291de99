"""From a float network and calibration frames to integer Relax."""
