"""The report page: the ledger of claims as HTML with figures."""
