"""Deploy: a bundle and its runtime as a numbered release on boards, over SSH."""
