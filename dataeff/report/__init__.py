"""Tables and pages made from results on disk; never imports the trainer."""
