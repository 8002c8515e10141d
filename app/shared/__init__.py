"""What the pages share: the scenario, the address, components."""
