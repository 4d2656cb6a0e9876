"""Matrix products with dense, FP8 and block-diagonal weights."""
