"""Files and folders: names, bounded reading of plain files, JSON, writing that survives."""
