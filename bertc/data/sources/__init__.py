"""Text as it comes: files, tables, data sets, documentation strings, parallel text."""
