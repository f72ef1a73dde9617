"""What `dataeff plugins new` writes."""
