"""The voices: each module owns one way to speak."""
