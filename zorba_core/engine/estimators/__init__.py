"""The ways to get rho[n, q]: one file each."""
