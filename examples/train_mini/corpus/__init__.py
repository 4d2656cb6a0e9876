"""Documents: public texts, and tasks, stories and talk that are generated."""
