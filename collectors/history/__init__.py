"""Histories of finished jobs: `.jhist`, Hadoop 1, Rumen traces."""
