"""The client for language models, used by live captains and by rollouts.

``client`` and ``transport`` import aiohttp, which is slow: import them only when a model is first asked.
"""
