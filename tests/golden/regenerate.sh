#!/bin/sh
# regenerate.sh BUILD_DIR [CASE...] - writes what the program prints now as what it must print. Read the diff: each
# changed number needs its reason in the commit message.
exec "$(dirname -- "$0")/run.sh" --regenerate "$@"
