"""The tables of the site, made from the code and from the files that hold results."""
