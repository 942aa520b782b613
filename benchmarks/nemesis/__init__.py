"""Break servers, databases and workers in many ways, and check what viewers were shown.

``python -m benchmarks nemesis --runs 200 --seed 1`` draws the nemeses of each run from its seed, in the
manner of Jepsen: :mod:`.cluster` runs the processes, :mod:`.nemeses` break them, :mod:`.viewers` keep every
frame, and :mod:`.checker` compares these histories with the record. :mod:`.planted_bugs` proves that the
checks can fail.
"""
