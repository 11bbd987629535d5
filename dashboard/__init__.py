"""The dashboard: Streamlit pages over the store of a running (or replayed) clustercep."""
