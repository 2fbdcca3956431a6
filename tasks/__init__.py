"""The steps of the pipeline: frame in, frame out."""
