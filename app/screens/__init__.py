"""The pages, a folder each. (A folder named pages would be picked up by Streamlit.)"""
