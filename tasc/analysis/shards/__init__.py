"""A split counted part by part: in files, by hand on several machines, or by an executor."""
