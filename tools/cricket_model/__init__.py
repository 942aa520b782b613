"""Fits cricket's ball model to count tables and reports how real its matches look."""
