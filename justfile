# The same steps as scripts/test, by name. `just` comes from PyPI (`rust-just`) or crates.io; nothing needs it.

# All tests, as CI runs them
ci:
    scripts/test

# Format the code
fmt:
    cargo fmt --all

# Formatting and clippy
lint:
    scripts/test fmt lint

# The code for other systems, type-checked
targets:
    scripts/test targets

# What of the Windows sandbox runs under wine
wine:
    scripts/test wine

# All tests and doctests
test:
    scripts/test test

# The documentation, in target/doc
doc:
    scripts/test doc

# Write the JSON Schemas anew, and the clients' types from them
schema:
    cargo run --quiet -- schema --out schemas
    python3 clients/python/generate.py
    node clients/typescript/scripts/generate.mjs

# The program as it is meant to be installed, to target/stockade
build:
    scripts/build

# Benchmarks; NAME selects those that begin with it
bench NAME="":
    scripts/build
    cargo bench --workspace {{ if NAME == "" { "" } else { "--bench '" + NAME + "*'" } }}

# What other sandboxes stop and how long they take to start, those that are installed
bench-peers ROUNDS="30":
    scripts/build
    scripts/peers --rounds {{ ROUNDS }}

# What each set of features of the library costs: crates and build time
features:
    scripts/features

# Fuzz one parser for SECONDS (needs a nightly toolchain and `cargo install cargo-fuzz`)
fuzz TARGET="protocol" SECONDS="300":
    cargo +nightly fuzz run {{ TARGET }} -- -max_total_time={{ SECONDS }} -max_len=4096
