"""The estimators, which compute rho[n, q]: one file each."""
