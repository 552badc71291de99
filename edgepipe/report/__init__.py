"""Output for people: tables, and pictures with detections drawn on them."""
