"""The pages, a folder each. (Streamlit would run the files of a folder named pages by itself.)"""
