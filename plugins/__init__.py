"""The bundled strategies: one file each, found by the same entry points as third-party ones."""
