#!/bin/sh
# Makes the lock files that the binary carries, one folder a product and
# platform: lock/update.sh RUNTIME_VERSION CLI_VERSION. The versions are those
# of pins.go; a test compares the two. A platform whose package npm cannot
# find gets no folder and is then installed by exact version alone.
set -eu
cd "$(dirname "$0")"
platforms="linux-x64 linuxmusl-x64 linux-arm64 linuxmusl-arm64 darwin-x64 darwin-arm64 win32-x64 win32-arm64"

lock() { # product, package prefix, version
    for platform in $platforms; do
        rm -rf "$1/$platform"
        mkdir -p "$1/$platform"
        printf '{\n  "name": "copilot-bridge-%s",\n  "private": true,\n  "dependencies": {\n    "%s-%s": "%s"\n  }\n}\n' \
            "$1" "$2" "$platform" "$3" >"$1/$platform/package.json"
        # --force: the packages name their platform, which is not this one.
        # No addresses: whoever installs may use a registry of their own.
        if ! (cd "$1/$platform" && npm install --package-lock-only --omit-lockfile-registry-resolved \
            --force --ignore-scripts --no-audit --no-fund --loglevel=silent >/dev/null); then
            echo "no lock for $2-$platform $3" >&2
            rm -rf "${1:?}/$platform"
        fi
    done
}

lock runtime @github/copilot-sdk "$1"
lock cli @github/copilot "$2"
