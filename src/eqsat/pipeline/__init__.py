"""The pipeline: saturation, the extraction problem, extraction, and explanations of what was extracted."""
