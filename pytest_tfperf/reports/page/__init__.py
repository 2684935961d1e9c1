"""The report: one document of facts, and one HTML page that draws it."""
