"""What a bundle is made of, how fast it should be and how fast it was, for people and scripts."""
