"""The client of OpenAI-compatible chat completions, shared by live captains and by rollouts.

``client`` and ``transport`` import aiohttp, which takes long: they are imported when a model is first asked.
"""
