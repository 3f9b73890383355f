"""From files to chunks: extract, chunk."""
