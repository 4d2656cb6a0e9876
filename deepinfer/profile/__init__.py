"""What steps cost on this machine: measured once, kept on disk, used by the verification budget."""
