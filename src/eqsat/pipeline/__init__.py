"""The pipeline: saturation, the extraction problem, extraction, and explanations of results."""
