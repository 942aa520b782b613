"""Tests of the routes and pages."""
