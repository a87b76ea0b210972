#!/usr/bin/env bash
# quickstart.sh - installs what is missing, builds tp-plan at build/tp-plan and plans a real job: DeepSeek-Coder-33B at 32K
# tokens on four nodes of eight A100. Arguments are passed on to `tp-plan plan`.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

./scripts/setup.sh
[ -f build/build.ninja ] || meson setup build -Dtests=false >/dev/null
ninja -C build --quiet tp-plan
exec build/tp-plan plan --model deepseek-coder-33b --cluster dgx-a100-80g --nodes 4 \
    --seq-length 32768 --global-batch-size 128 "$@"
