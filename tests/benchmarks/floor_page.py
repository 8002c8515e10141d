"""The smallest Streamlit page with the parts of Explore: a slider, a sentence, a curve and a heat map that change.

It does what makes Explore fast, and only the fragment is executed when the slider moves.
"""

import numpy as np
import plotly.graph_objects as go
import streamlit as st


def chart(key: str, height: int, **trace) -> None:
    figure = go.Figure({"data": [trace], "layout": {"height": height}}, _validate=False)
    figure.layout.template = None
    st.plotly_chart(figure, key=key, theme=None, config={"displayModeBar": False})


@st.fragment
def parts() -> None:
    value = st.slider("Value", 1, 40, 20, key="spend")
    chart("front", 320, type="scatter", y=np.arange(1, 41) / value)
    st.markdown(f"The value is {value}.")
    clients = int(st.query_params.get("clients", 50))
    chart("matrix", 230, type="heatmap", z=np.add.outer(np.arange(12), np.arange(clients)) % value, showscale=False)


st.set_page_config(layout="wide")
parts()
