"""Paired statistics: what differs beyond chance on the same samples."""
