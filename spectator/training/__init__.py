"""The worlds for trainers: Gymnasium, TRL and OpenEnv's harness, each in a module of its own."""
