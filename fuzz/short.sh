#!/usr/bin/env bash
# A short run of all that is fuzzed, for the gate: the same inputs each time, as far as the tools can do that.
#   short.sh [BUILT]: BUILT is a folder for what is built; kept. PYTHON is the Python that has gitjournal and atheris.
set -euo pipefail
cd "$(dirname "$0")/.."
built=$(mkdir -p "${1:-fuzz/built}" && cd "${1:-fuzz/built}" && pwd)
python=${PYTHON:-python}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

quietly() { # quietly COMMAND...: print its last word, or all if it fails
    "$@" >"$scratch/said" 2>&1 || { cat "$scratch/said"; return 1; }
    grep -v '^PASS' "$scratch/said" | tail -n 1
}

if "$python" -c 'import atheris' 2>/dev/null; then
    echo "gitjournal, with atheris"
    "$python" fuzz/guided.py --runs 4000 all
else
    echo "no atheris for this Python or platform: tests/test_fuzz.py tries the same targets"
fi

echo "the Go verifier"
(
    cd verifiers/go
    go test -c -fuzz=Fuzz -o "$built/fuzz.test" .
    for fuzz in $(grep -ho 'func Fuzz[A-Za-z0-9]*' ./*_test.go | cut -c6-); do
        quietly "$built/fuzz.test" -test.run '^$' -test.fuzz "^$fuzz\$" -test.fuzztime 1000x -test.fuzzminimizetime 10x \
            -test.fuzzcachedir "$scratch/go"
    done
)

echo "the Rust verifier"
# What cargo-fuzz does, without it. Only what is built for a platform that is named is instrumented.
host=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module"
for pass in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=" -Cllvm-args=-sanitizer-coverage-$pass"
done
RUSTFLAGS=$flags CARGO_TARGET_DIR="$built/fuzz" \
    cargo build --quiet --locked --release --target "$host" --manifest-path verifiers/rust/fuzz/Cargo.toml
"$python" fuzz/seeds.py "$scratch/rust"
(cd "$scratch" && quietly "$built/fuzz/$host/release/verify" -seed=1 -runs=20000 -max_len=8000 rust)

echo "all verifiers, the same inputs"
"$python" verifiers/fuzz.py --seed 1 --count 200 --minutes 5 --built "$built"
