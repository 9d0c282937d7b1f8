"""Sources of text: files, tables, data sets, documentation strings, parallel text."""
