"""Pages and spreadsheets of reports; each takes a report and returns text."""
