"""Analysis of mass spectra: fits, scans, significances, limits, and calibration, as pure functions.

Masses and widths are in GeV. A spectrum is ``edges_gev`` (n + 1 ascending values) and ``counts`` (n values).
Only toys use random numbers, from a stream seeded by the spectrum. Invalid arguments raise
:class:`.checks.InvalidAnalysis`. Scipy and iminuit are imported at the first call.

>>> from spectator.environments.collider.analysis.counting import counting_significance
>>> round(counting_significance(12, 4.7), 2)
2.71
"""
