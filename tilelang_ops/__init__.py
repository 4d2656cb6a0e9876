"""TileLang kernels of the DeepSeek-V4.1 architecture: <family>/<op>.py, a kernel factory and its torch-facing call.

Depends on torch and tilelang only. Importing this package imports neither; the op files do.
"""
