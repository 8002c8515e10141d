"""The Train page: what can be chosen, the form, and the look at runs that go on."""
