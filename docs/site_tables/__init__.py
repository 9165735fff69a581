"""The tables of the site, made from the code and from result files."""
