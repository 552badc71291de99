"""From integer Relax to operators, placements and stages."""
