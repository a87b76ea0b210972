#!/usr/bin/env bash
# setup.sh [--tests] - installs what tp-plan is built with on Debian 12, and with --tests what its tests need too.
# Nothing happens, and no root is needed, when all of it is there.
set -euo pipefail

packages=(meson ninja-build pkgconf gcc libc6-dev libcjson-dev libgsl-dev libyaml-dev)
case ${1-} in
    '') ;;
    --tests) packages+=(libcmocka-dev clang libclang-rt-14-dev python3 shellcheck) ;;
    *)
        echo "usage: setup.sh [--tests]" >&2
        exit 2
        ;;
esac

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) || status=
    [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup.sh: missing: ${missing[*]}: run this as root, or install sudo" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "setup.sh: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
