"""The composition root: the only package that knows all parts of a broker."""
