"""The pipeline: from what a source writes to what the store keeps."""
