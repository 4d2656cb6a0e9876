"""Number formats and exact arithmetic inside kernels: functions from expressions to expressions, for any prim_func."""
