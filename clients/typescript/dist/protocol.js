// Generated from `schemas/` by `scripts/generate.mjs`. Changes go there.
export {};
