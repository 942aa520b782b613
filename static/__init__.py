"""The browser's half: ES modules and styles, served as written."""
