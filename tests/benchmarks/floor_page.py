"""The smallest Streamlit page with the parts of Explore: a slider, a sentence, a curve and a heat map that change."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

st.set_page_config(layout="wide")
value = st.slider("Value", 1, 40, 20, key="spend")
curve = np.arange(1, 41) / value
st.plotly_chart(go.Figure(go.Scatter(y=curve), {"height": 320}), key="front")
st.markdown(f"The value is {value}.")
st.plotly_chart(
    go.Figure(go.Heatmap(z=np.add.outer(np.arange(12), np.arange(50)) % value), {"height": 230}), key="matrix"
)
