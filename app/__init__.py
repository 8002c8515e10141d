"""The dashboard, served by `streamlit run app/main.py`."""
