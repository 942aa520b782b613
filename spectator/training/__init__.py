"""Worlds for trainers: Gymnasium, TRL, verifiers and OpenEnv's harness, one module each."""
