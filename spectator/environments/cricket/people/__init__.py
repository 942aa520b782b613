"""Cricketers: names, skills, drawn squads, sides."""
