"""Op contract over TileLang kernels: one op a file. Imported only where a GPU and tilelang are."""
