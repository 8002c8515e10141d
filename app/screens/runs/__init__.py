"""The Runs page: reading runs from wherever they are, choosing, comparing and looking into them."""
