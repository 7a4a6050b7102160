"""The hypotheses of the preregistration, each judged by its own rule."""
