"""What people look at: tables, and pictures with detections drawn into them."""
