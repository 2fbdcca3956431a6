"""The site: published tables in, static pages out."""
