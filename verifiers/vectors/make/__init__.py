"""What makes the vectors: plain Python that writes events, git objects, signatures and proofs, good and forged."""
