"""The experiment: the public task, nature behind it, what is recorded, and the state of the campaign."""
