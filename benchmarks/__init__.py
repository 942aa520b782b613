"""The measurements behind docs/performance.md, each next to a limit of the machine."""
