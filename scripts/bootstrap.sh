#!/bin/sh
# Find any Python 3.6 or newer that really runs, and let bootstrap.py do the rest with it.
# Names on PATH may be version-manager shims that exist but fail, so each is tried.
here=$(dirname "$0")

works() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 6))' >/dev/null 2>&1
}

for python in "$here/../.venv/bin/python" "$here/../.venv/Scripts/python.exe" \
    python3.13 python3.12 python3.14 python3 python /usr/bin/python3 /usr/local/bin/python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3*/bin/python py; do
    if works "$python"; then
        exec "$python" "$here/bootstrap.py" "$@"
    fi
done
echo "bootstrap: no Python 3 was found; install Python 3.12 or newer from https://www.python.org/downloads/ and run this again" >&2
exit 1
