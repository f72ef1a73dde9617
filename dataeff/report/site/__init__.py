"""Sites: many results as static pages, by suite and machine, and by method."""
