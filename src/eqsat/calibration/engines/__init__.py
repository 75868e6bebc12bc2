"""Runtimes in which models are timed, one module each, and the program that times them.

The module of a runtime gives ``LEVELS``, what its optimizer may be set to by name, the plainest first; ``version()``;
``kernel(path, threads, level)``, a model that is ready to run, as a function that runs it once, the arrays that it
takes, and the share of its time that counts; and ``whole(path, threads, level, feeds)``, the same of a model that is no
kernel and takes given arrays.
"""
