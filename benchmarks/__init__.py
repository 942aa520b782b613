"""The measurements behind docs/performance.md; each beside a limit of the machine."""
