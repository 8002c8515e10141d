#!/bin/sh
# Start a run on the SuperLink at $SUPERLINK with the settings in $RUN_CONFIG, and show its log until it ends.
set -eu
mkdir -p "$FLWR_HOME"
printf '[superlink.server]\naddress = "%s"\ninsecure = true\n' "$SUPERLINK" >"$FLWR_HOME/config.toml"
app=$(python -c 'from zorba_core.federation.request import APP; print(APP)')
exec flwr run "$app" server --stream --run-config "$RUN_CONFIG"
