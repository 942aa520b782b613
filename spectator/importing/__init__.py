"""Import runs of other programs from their files into a journal that the pages show."""
