"""Bundles: a finished evaluation in one folder that anybody can check without a key and without a network."""
