"""The dashboard. `streamlit run app/main.py` serves it; nothing else imports it but its tests."""
