"""Programs that use the library, and the recipe of the bundled model."""
