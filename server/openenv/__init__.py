"""The OpenEnv contract: the default world at the root, all at ``/envs/{name}``."""

from .routes import OpenEnv, register_openenv

__all__ = ["OpenEnv", "register_openenv"]
