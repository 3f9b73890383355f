"""From text to what is stored: token blobs and batches."""
