"""The client of OpenAI-compatible chat completions, shared by live captains and by rollouts.

``chat`` and ``parsing`` need nothing beyond the standard library; ``client`` and ``transport`` need the extra
``models`` and are imported only once a model is really asked.
"""
