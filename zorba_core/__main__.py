from zorba_core.cli import main

main()
