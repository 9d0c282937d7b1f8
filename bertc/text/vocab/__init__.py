"""Vocabularies: learned, existing, or made from the files of a folder."""
