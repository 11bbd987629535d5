"""What the report jobs leave: tables of Parquet in a folder, for the command line and the dashboard."""
